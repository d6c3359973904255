"""The research environment of an Agent over HTTP: real packages, real uv; a scripted installer only where the real one cannot be
made to hang or fail."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.protocol.limits import RESEARCH_INSTALL_S
from tests.flows.test_agents import code_of, create, delete, until_phase
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
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
    begun = await gateway.call("POST", route())
    assert (begun.status_code, begun.json()["state"]) == (202, "installing")
    assert begun.json()["progress"]["packages_total"] == len(LOCKED) == 7
    status = await until(gateway, "installed", "failed")
    assert status["state"] == "installed", gateway.log_text()
    assert {one["name"]: one["version"] for one in status["packages"]} == LOCKED
    target = environment_of(gateway)
    assert left_of(gateway) == WHOLE
    paths = [target, *target.rglob("*")]
    assert {path.lstat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o500}
    assert {path.lstat().st_mode & 0o777 for path in paths if not path.is_dir()} == {0o400}
    assert (target / "pypdf/__pycache__").is_dir()
    assert record_of(gateway).stat().st_mode & 0o777 == 0o600
    assert await gateway.ok("GET", route(other)) == ABSENT
    assert left_of(gateway, other) == []

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


async def test_an_upgrade_keeps_it_and_a_deletion_takes_it_along(gateway: Gateway) -> None:
    equip(gateway.root)
    agent = await create(gateway)
    status = await install(gateway, agent)
    await gateway.ok("POST", f"/api/agents/{agent}/upgrade")
    await until_phase(gateway, agent, "ready")
    assert await gateway.ok("GET", route(agent)) == status
    await delete(gateway, agent)
    assert left_of(gateway, agent) == []
    assert await code_of(gateway, "GET", route(agent)) == (404, "not_found")


async def test_a_file_with_another_hash_is_refused_and_leaves_nothing(gateway: Gateway) -> None:
    equip(gateway.root)
    lock = gateway.root / "config/research-documents.txt"
    right = lock.read_text()
    head, _, tail = right.partition("typing-extensions==")
    lock.write_text(f"{head}typing-extensions=={tail.split()[0]} \\\n    --hash=sha256:{'0' * 64}\n")
    await gateway.ok("POST", route())
    status = await until(gateway, "failed", "installed")
    assert (status["state"], status["error"]["code"]) == ("failed", "hash_mismatch")
    assert left_of(gateway) == []
    lock.write_text(right)
    assert (await install(gateway))["packages"]


async def test_what_belongs_to_another_version_is_not_used_and_replaced(gateway: Gateway) -> None:
    equip(gateway.root)
    first = await install(gateway)
    lock = gateway.root / "config/research-documents.txt"
    lock.write_text(lock.read_text() + "# another\n")
    assert await gateway.ok("GET", route()) == {"state": "absent", "outdated": True}
    await gateway.restart()
    assert left_of(gateway) == WHOLE
    second = await install(gateway)
    assert (second["packages"], second["version"] != first["version"]) == (first["packages"], True)


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


async def test_an_orderly_stop_ends_the_installer(gateway: Gateway) -> None:
    script_installer(gateway.root, HANGING)
    await gateway.ok("POST", route())
    pid = await installer_started(gateway.root)
    assert await gateway.stop() == 0
    assert not Path(f"/proc/{pid}").exists()
    assert left_of(gateway) == []


async def test_nothing_changes_while_a_run_is_active_and_no_run_begins_while_it_changes(gateway: Gateway, fake: FakeOllama) -> None:
    script_installer(gateway.root, HANGING)
    gate = Gate()
    fake.script(gated(gate, text("done"), begun("one ")), text("two"))
    conversation = await gateway.new_conversation()
    running = asyncio.create_task(gateway.run(conversation, "hello"))
    await fake.asked(1)
    assert await code_of(gateway, "POST", route()) == (409, "agent_busy")
    assert await code_of(gateway, "DELETE", route()) == (409, "agent_busy")
    gate.open()
    assert (await running).terminal["type"] == "run.completed"

    async with asyncio.timeout(10):
        while (await gateway.call("POST", route())).status_code == 409:  # the Run's Worker is being ended
            await asyncio.sleep(0.01)
    pid = await installer_started(gateway.root)
    path = f"{gateway.agent}/sessions/{conversation}/runs"
    assert await code_of(gateway, "POST", path, {"message": "again"}) == (503, "agent_draining")
    other = await create(gateway)
    elsewhere = await gateway.new_conversation(other)
    await gateway.ok("POST", f"/api/agents/{other}/sessions/{elsewhere}/runs", {"message": "elsewhere"})
    assert (await gateway.call("DELETE", route())).status_code == 204
    await ended(pid)
    assert left_of(gateway) == []
    assert (await gateway.run(conversation, "again")).terminal["type"] == "run.completed"


async def test_two_installs_are_one_and_the_next_agent_waits_for_its_turn(gateway: Gateway) -> None:
    script_installer(gateway.root, HANGING)
    other = await create(gateway)
    first, second = await asyncio.gather(gateway.ok("POST", route()), gateway.ok("POST", route()))
    assert (first["state"], second["state"]) == ("installing", "installing")
    pid = await installer_started(gateway.root)
    waiting = await gateway.ok("POST", route(other))
    assert waiting["progress"]["step"] == "waiting"
    status = await gateway.ok("GET", route())
    assert (status["progress"]["step"], status["progress"]["packages_done"]) == ("downloading", 0)
    assert await code_of(gateway, "POST", f"/api/agents/{other}/upgrade") == (503, "agent_draining")
    assert (await gateway.call("DELETE", route())).status_code == 204
    await ended(pid)
    pid = await installer_started(gateway.root, times=2)
    assert (await gateway.ok("GET", route(other)))["progress"]["step"] == "downloading"
    await delete(gateway, other)
    await ended(pid)
    assert left_of(gateway, other) == []
    assert len((gateway.root / ".tools/uv/bin/starts").read_text().splitlines()) == 2


async def test_an_installation_has_ten_minutes_and_is_in_progress_until_then(gateway: Gateway) -> None:
    script_installer(gateway.root, HANGING)
    await gateway.ok("POST", route())
    pid = await installer_started(gateway.root)
    await gateway.advance(RESEARCH_INSTALL_S - 60)
    status = await gateway.ok("GET", route())
    assert (status["state"], status["progress"]["elapsed_s"] >= RESEARCH_INSTALL_S - 60) == ("installing", True)
    await gateway.advance(60)
    status = await until(gateway, "failed")
    assert status["error"]["code"] == "too_long"
    assert not Path(f"/proc/{pid}").exists()
    assert left_of(gateway) == []
    assert (await gateway.call("DELETE", route())).status_code == 204
    assert await gateway.ok("GET", route()) == ABSENT
