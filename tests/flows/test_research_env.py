"""The research environment of an Agent over HTTP: real packages, real uv; a scripted installer only where the real one cannot be
made to hang or fail."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flows.test_agents import code_of, create, delete, until_phase
from tests.support.fake_ollama import FakeOllama
from tests.support.gateway import PROJECT, Gateway
from tests.support.research import (
    HANGING,
    PACKAGE_ENVIRONMENT,
    ended,
    environment_of,
    equip,
    install,
    installer_started,
    left_of,
    record_of,
    route,
    script_installer,
    until,
)

LOCKED = {
    name.replace("_", "-"): version.rstrip(" \\")
    for line in (PROJECT / "config/research-documents.txt").read_text().splitlines() if "==" in line
    for name, _, version in [line.partition("==")]
}
ABSENT = {"state": "absent", "outdated": False}
WHOLE = ["research-documents", "research-documents.json"]


@pytest.fixture
async def gateway(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[Gateway]:
    """With what the operator's environment says about packages."""
    async with Gateway(tmp_path, fake.port, **PACKAGE_ENVIRONMENT) as running:
        yield running


async def test_an_environment_is_installed_sealed_kept_and_removed(gateway: Gateway) -> None:
    equip(gateway.root)
    other = await create(gateway)
    assert await gateway.ok("GET", route()) == ABSENT
    asked = await gateway.call("POST", route())
    assert (asked.status_code, asked.json()["state"], asked.json()["progress"]["step"]) == (202, "installing", "waiting")
    status = await until(gateway, "installed", "failed")
    assert status["state"] == "installed", gateway.log_text()
    assert {one["name"]: one["version"] for one in status["packages"]} == LOCKED
    target = environment_of(gateway)
    assert left_of(gateway) == WHOLE
    paths = [target, *target.rglob("*")]
    assert {path.lstat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.lstat().st_mode & 0o777 for path in paths if not path.is_dir()} == {0o400}
    assert (target / "pypdf/__pycache__").is_dir()
    assert record_of(gateway).stat().st_mode & 0o777 == 0o600
    assert await gateway.ok("GET", route(other)) == ABSENT
    assert left_of(gateway, other) == []

    assert (await gateway.run(await gateway.new_conversation(), "hello")).terminal["type"] == "run.completed"

    script_installer(gateway.root, "exit 1")  # the same version again asks nobody
    again = await gateway.call("POST", route())
    assert (again.status_code, again.json()) == (200, status)
    await gateway.restart()
    assert await gateway.ok("GET", route()) == status

    conversation = await gateway.new_conversation()
    (gateway.workspace / "kept.txt").write_text("kept")
    assert (await gateway.call("DELETE", route())).status_code == 204
    assert await gateway.ok("GET", route()) == ABSENT
    assert left_of(gateway) == []
    assert (gateway.workspace / "kept.txt").read_text() == "kept"
    assert (await gateway.page(conversation))["turns"] == []
    assert (await gateway.call("DELETE", route())).status_code == 204


async def test_an_upgrade_keeps_it_a_failure_too_and_a_deletion_takes_it_along(gateway: Gateway) -> None:
    """A file with another hash is refused; what was installed for the former lock file is used no more, and stays until it is replaced."""
    equip(gateway.root)
    agent = await create(gateway)
    status = await install(gateway, agent)
    await gateway.ok("POST", f"/api/agents/{agent}/upgrade")
    await until_phase(gateway, agent, "ready")
    assert await gateway.ok("GET", route(agent)) == status

    lock = gateway.root / "config/research-documents.txt"
    head, _, tail = lock.read_text().partition("typing-extensions==")
    lock.write_text(f"{head}typing-extensions=={tail.split()[0]} \\\n    --hash=sha256:{'0' * 64}\n")
    assert await gateway.ok("GET", route(agent)) == {"state": "absent", "outdated": True}
    await gateway.ok("POST", route(agent))
    status = await until(gateway, "failed", "installed", agent=agent)
    assert (status["state"], status["outdated"], status["error"]["code"]) == ("failed", True, "hash_mismatch")
    assert left_of(gateway, agent) == WHOLE

    await delete(gateway, agent)
    assert left_of(gateway, agent) == []
    assert await code_of(gateway, "GET", route(agent)) == (404, "not_found")


async def test_a_killed_gateway_takes_its_installer_along_and_the_next_one_begins_anew(gateway: Gateway) -> None:
    script_installer(gateway.root, HANGING)
    await gateway.ok("POST", route())
    pid = await installer_started(gateway.root)
    await gateway.kill()
    await ended(pid)
    assert left_of(gateway) == ["research-documents.building"]
    await gateway.start()
    await gateway.login()
    assert await gateway.ok("GET", route()) == ABSENT
    assert left_of(gateway) == []

    await gateway.ok("POST", route())
    pid = await installer_started(gateway.root, times=2)
    assert await gateway.stop() == 0, "an orderly stop ends it too"
    await ended(pid)
    assert left_of(gateway) == []
