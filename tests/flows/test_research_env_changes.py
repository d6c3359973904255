"""What an Agent, and the others, may do while a research environment changes. A script plays an installer that never ends."""

import asyncio
from pathlib import Path

import pytest

from agent_builder.protocol.limits import RESEARCH_INSTALL_S
from tests.flows.test_agents import code_of, create, delete
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import Gateway
from tests.support.research import HANGING, ended, installer_started, left_of, route, script_installer, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_nothing_changes_while_a_run_is_active_and_no_run_begins_while_it_changes(shared: Gateway, shared_fake: FakeOllama) -> None:
    script_installer(shared.root, HANGING)
    gate = Gate()
    shared_fake.script(gated(gate, text("done"), begun("one ")), text("two"))
    conversation = await shared.new_conversation()
    running = asyncio.create_task(shared.run(conversation, "hello"))
    await shared_fake.asked(1)
    assert await code_of(shared, "POST", route()) == (409, "agent_busy")
    assert await code_of(shared, "DELETE", route()) == (409, "agent_busy")
    gate.open()
    assert (await running).terminal["type"] == "run.completed"

    async with asyncio.timeout(10):
        while (await shared.call("POST", route())).status_code == 409:  # the Run's Worker is being ended
            await asyncio.sleep(0.01)
    pid = await installer_started(shared.root)
    path = f"{shared.agent}/sessions/{conversation}/runs"
    assert await code_of(shared, "POST", path, {"message": "again"}) == (503, "agent_draining")
    other = await create(shared)
    elsewhere = await shared.new_conversation(other)
    await shared.ok("POST", f"/api/agents/{other}/sessions/{elsewhere}/runs", {"message": "elsewhere"})
    assert (await shared.call("DELETE", route())).status_code == 204
    await ended(pid)
    assert left_of(shared) == []
    assert (await shared.run(conversation, "again")).terminal["type"] == "run.completed"


async def test_two_installs_are_one_and_the_next_agent_waits_for_its_turn(shared: Gateway) -> None:
    script_installer(shared.root, HANGING)
    other = await create(shared)
    first, second = await asyncio.gather(shared.ok("POST", route()), shared.ok("POST", route()))
    assert (first["state"], second["state"]) == ("installing", "installing")
    pid = await installer_started(shared.root)
    waiting = await shared.ok("POST", route(other))
    assert waiting["progress"]["step"] == "waiting"
    status = await shared.ok("GET", route())
    assert {**status["progress"], "elapsed_s": 0} == {"step": "downloading", "packages_done": 0, "packages_total": 7, "elapsed_s": 0}
    assert await code_of(shared, "POST", f"/api/agents/{other}/upgrade") == (503, "agent_draining")
    assert (await shared.call("DELETE", route())).status_code == 204
    await ended(pid)
    pid = await installer_started(shared.root, times=2)
    assert (await shared.ok("GET", route(other)))["progress"]["step"] == "downloading"
    await delete(shared, other)
    await ended(pid)
    assert left_of(shared, other) == []
    assert len((shared.root / ".tools/uv/bin/starts").read_text().splitlines()) == 2


async def test_an_installation_has_ten_minutes_and_is_in_progress_until_then(shared: Gateway) -> None:
    script_installer(shared.root, HANGING)
    await shared.ok("POST", route())
    pid = await installer_started(shared.root)
    await shared.advance(RESEARCH_INSTALL_S - 60)
    status = await shared.ok("GET", route())
    assert (status["state"], status["progress"]["elapsed_s"] >= RESEARCH_INSTALL_S - 60) == ("installing", True)
    await shared.advance(60)
    status = await until(shared, "failed")
    assert status["error"]["code"] == "too_long"
    assert not Path(f"/proc/{pid}").exists()
    assert left_of(shared) == []
    assert (await shared.call("DELETE", route())).status_code == 204
    assert (await shared.ok("GET", route()))["state"] == "absent"
