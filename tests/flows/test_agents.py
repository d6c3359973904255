"""Agents over HTTP: their changes, the limit, damage that stays with one of them, and kill -9 in the middle of a change."""

import asyncio

import httpx
import pytest

from agent_builder.protocol.limits import AGENTS
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import SYSTEM_AGENT, Gateway, Json

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def agents(gateway: Gateway) -> dict[str, Json]:
    return {row["agent_id"]: row for row in (await gateway.ok("GET", "/api/agents"))["items"]}


async def create(gateway: Gateway, name: str = "Other") -> str:
    return str((await gateway.ok("POST", "/api/agents", {"name": name}))["agent_id"])


async def until_phase(gateway: Gateway, agent: str, phase: str | None) -> None:
    """None: the Agent is gone."""
    async with asyncio.timeout(20):
        while (await agents(gateway)).get(agent, {}).get("phase") != phase:
            await asyncio.sleep(0.01)


async def ask(gateway: Gateway, agent: str, message: str = "hello") -> list[str]:
    """One Turn in a new Conversation of this Agent; the types of its events."""
    conversation = await gateway.new_conversation(agent)
    accepted = await gateway.ok("POST", f"/api/agents/{agent}/sessions/{conversation}/runs", {"message": message})
    async with gateway.client.stream("GET", f"/api/agents/{agent}/runs/{accepted['run_id']}/events") as response:
        return [line.removeprefix("event: ") async for line in response.aiter_lines() if line.startswith("event: ")]


async def code_of(gateway: Gateway, method: str, path: str, body: object = None) -> tuple[int, str]:
    response = await gateway.call(method, path, body)
    return response.status_code, response.json()["error"]["code"]


async def delete(gateway: Gateway, agent: str) -> None:
    assert (await gateway.call("DELETE", f"/api/agents/{agent}")).status_code == 202
    await until_phase(gateway, agent, None)


async def test_an_agent_is_made_named_renewed_and_removed(shared: Gateway, shared_fake: FakeOllama) -> None:
    agent = await create(shared, "  First name ")
    path, data = f"/api/agents/{agent}", shared.root / "data/agents" / agent
    row = (await agents(shared))[agent]
    assert (row["name"], row["system"], row["generation"], row["phase"], row["running"]) == ("First name", False, 1, "ready", 0)
    assert (data / "workspace/agent-builder.md").read_text() == (shared.workspace / "agent-builder.md").read_text()
    assert (await ask(shared, agent))[-1] == "run.completed"
    assert (await shared.ok("PATCH", path, {"name": "Second"}))["name"] == "Second"
    assert (await shared.call("POST", f"{path}/upgrade")).status_code == 202
    await until_phase(shared, agent, "ready")
    row = (await agents(shared))[agent]
    assert (row["name"], row["generation"]) == ("Second", 2)
    assert [path.name for path in (shared.root / ".runtime/agents" / agent / "worker-env").iterdir()] == ["2"]
    assert len((await shared.ok("GET", f"{path}/sessions"))["items"]) == 1
    assert (await ask(shared, agent))[-1] == "run.completed"
    await delete(shared, agent)
    assert not data.exists()
    assert not (shared.root / ".runtime/agents" / agent).exists()
    for rest in ("", "/sessions", "/workspace", "/permissions"):
        assert await code_of(shared, "GET", f"{path}{rest}") == (404, "not_found")


async def test_the_agents_do_not_see_each_other(shared: Gateway, shared_fake: FakeOllama) -> None:
    agent = await create(shared)
    shared_fake.script(text("mine"))
    run = await shared.run(await shared.new_conversation(), "hello")
    conversation = (await shared.ok("GET", f"{shared.agent}/sessions"))["items"][0]["conversation_id"]
    for path in (f"sessions/{conversation}", f"runs/{run.run_id}/events", f"runs/{run.run_id}/replay", f"sessions/{conversation}/preparation"):
        assert await code_of(shared, "GET", f"/api/agents/{agent}/{path}") == (404, "not_found")
    assert await code_of(shared, "POST", f"/api/agents/{agent}/sessions/{conversation}/runs", {"message": "x"}) == (404, "not_found")
    await delete(shared, agent)


@pytest.mark.parametrize("change", ["upgrade", "delete"])
async def test_a_change_ends_what_runs_and_lets_nothing_new_in(shared: Gateway, shared_fake: FakeOllama, change: str) -> None:
    agent, gate = await create(shared), Gate()
    conversation = await shared.new_conversation(agent)
    shared_fake.script(gated(gate, text("never"), before=begun("begin")))
    before, left = len(shared_fake.chats), len(shared_fake.left)
    await shared.ok("POST", f"/api/agents/{agent}/sessions/{conversation}/runs", {"message": "hello"})
    await shared_fake.asked(before + 1)
    assert (await agents(shared))[agent]["running"] == 1
    asked = shared.call("POST", f"/api/agents/{agent}/upgrade") if change == "upgrade" else shared.call("DELETE", f"/api/agents/{agent}")
    answer = await asked
    assert answer.status_code == 202
    assert answer.json()["phase"] in ("draining", "upgrading", "deleting")
    late = await shared.call("POST", f"/api/agents/{agent}/sessions/{conversation}/runs", {"message": "late"})
    assert late.status_code in (404, 503) if change == "delete" else late.status_code in (202, 409, 503)
    await shared_fake.closed(left + 1)
    await until_phase(shared, agent, "ready" if change == "upgrade" else None)
    if change == "upgrade":
        (turn, *_) = (await shared.ok("GET", f"/api/agents/{agent}/sessions/{conversation}"))["turns"]
        assert turn["state"] in ("cancelled", "interrupted")
        assert (await ask(shared, agent))[-1] == "run.completed"
        await delete(shared, agent)
    gate.open()
    assert not shared.worker_pids()


async def test_the_system_agent_stays_as_it_is(shared: Gateway) -> None:
    for method, path, body in (("PATCH", "", {"name": "Mine"}), ("POST", "/upgrade", None), ("DELETE", "", None)):
        assert await code_of(shared, method, f"{shared.agent}{path}", body) == (403, "protected_agent")
    assert (await agents(shared))[SYSTEM_AGENT]["phase"] == "ready"


async def test_the_thirty_third_agent_is_refused_also_when_many_ask_at_once(shared: Gateway) -> None:
    there = len(await agents(shared))
    made = [await create(shared, f"Agent {number}") for number in range(AGENTS - 1 - there)]
    answers = await asyncio.gather(*[shared.call("POST", "/api/agents", {"name": "Last"}) for _ in range(4)])
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409} == {"agent_limit"}
    assert len(await agents(shared)) == AGENTS
    assert len(list((shared.root / "data/agents").iterdir())) == AGENTS
    await asyncio.gather(*[shared.call("DELETE", f"/api/agents/{agent}") for agent in made])
    for agent in made:
        await until_phase(shared, agent, None)


async def test_a_damaged_agent_says_so_while_the_others_work_and_nothing_is_deleted(shared: Gateway, shared_fake: FakeOllama) -> None:
    broken, healthy = await create(shared, "Broken"), await create(shared, "Healthy")
    await ask(shared, broken)
    state = shared.root / "data/agents" / broken / "state.sqlite"
    await shared.stop()
    damage = b"not a database" * 1000
    state.write_bytes(damage)
    await shared.start()
    await shared.login()
    assert {agent: row["phase"] for agent, row in (await agents(shared)).items() if agent in (broken, healthy)} == {broken: "damaged", healthy: "ready"}
    refused = await shared.call("GET", f"/api/agents/{broken}/sessions")
    assert (refused.status_code, refused.json()["error"]["code"], refused.json()["error"]["retryable"]) == (503, "agent_damaged", False)
    assert "nothing was deleted" in refused.json()["error"]["message"]
    assert await code_of(shared, "POST", f"/api/agents/{broken}/sessions", {}) == (503, "agent_damaged")
    assert (await ask(shared, healthy))[-1] == "run.completed"
    assert (await ask(shared, SYSTEM_AGENT))[-1] == "run.completed"
    assert state.read_bytes() == damage
    await delete(shared, broken)
    await delete(shared, healthy)


async def test_a_damaged_system_agent_does_not_take_the_gateway_with_it(shared: Gateway, shared_fake: FakeOllama) -> None:
    other = await create(shared)
    state = shared.root / "data/agents" / SYSTEM_AGENT / "state.sqlite"
    await shared.stop()
    kept = state.read_bytes()
    state.write_bytes(kept[:100] + b"\xff" * 8000)
    await shared.start()
    await shared.login()
    assert (await agents(shared))[SYSTEM_AGENT]["phase"] == "damaged"
    assert await code_of(shared, "GET", f"{shared.agent}/sessions") == (503, "agent_damaged")
    assert (await ask(shared, other))[-1] == "run.completed"
    await shared.stop()
    state.write_bytes(kept)
    await shared.start()
    await shared.login()
    assert (await ask(shared, SYSTEM_AGENT))[-1] == "run.completed"
    await delete(shared, other)


async def test_a_database_that_breaks_while_it_is_used_fells_nobody_else(shared: Gateway, shared_fake: FakeOllama) -> None:
    broken, gate = await create(shared), Gate()
    conversation = await shared.new_conversation(broken)
    shared_fake.script(gated(gate, text("never"), before=begun("begin")))
    before = len(shared_fake.chats)
    await shared.ok("POST", f"/api/agents/{broken}/sessions/{conversation}/runs", {"message": "hello"})
    await shared_fake.asked(before + 1)
    for path in (shared.root / "data/agents" / broken).glob("state.sqlite*"):
        with path.open("r+b") as file:
            file.write(b"\xff" * path.stat().st_size)
    gate.open()
    async with asyncio.timeout(20):
        while (await shared.ok("GET", "/health"))["active_runs"]:
            await asyncio.sleep(0.01)
    assert (await ask(shared, SYSTEM_AGENT))[-1] == "run.completed"
    await shared.restart()
    assert (await agents(shared))[broken]["phase"] == "damaged"
    await delete(shared, broken)


STEPS = {"create": 2, "upgrade": 3, "delete": 2}  # transactions of each change, the one that fences it included


async def change(gateway: Gateway, what: str, agent: str) -> None:
    match what:
        case "create":
            await gateway.call("POST", "/api/agents", {"name": "New"})
        case "upgrade":
            await gateway.call("POST", f"/api/agents/{agent}/upgrade")
        case "delete":
            await gateway.call("DELETE", f"/api/agents/{agent}")


KILLS = [(what, number, "after") for what, count in STEPS.items() for number in range(1, count + 1)]


@pytest.mark.parametrize(("what", "number", "when"), [*((what, 1, "before") for what in STEPS), *KILLS])
async def test_a_change_killed_in_the_middle_is_finished_or_never_was(shared: Gateway, shared_fake: FakeOllama, what: str, number: int, when: str) -> None:
    agent = await create(shared, "Kept")
    await ask(shared, agent)
    known = set(await agents(shared))
    await shared.command(kill_at_commit=number, when=when)
    try:
        await change(shared, what, agent)
    except httpx.TransportError:
        pass  # the process has died before it could answer
    await shared.killed()
    await shared.start()
    await shared.login()
    rows = await agents(shared)
    assert {row["phase"] for row in rows.values()} == {"ready"}
    for place in ("data/agents", ".runtime/agents"):
        assert {path.name for path in (shared.root / place).iterdir()} == set(rows), place
    for one, row in rows.items():
        assert [path.name for path in (shared.root / ".runtime/agents" / one / "worker-env").iterdir()] == [str(row["generation"])]
        assert (await ask(shared, one))[-1] == "run.completed"
    started = (number, when) != (1, "before")
    if what == "create":
        assert len(set(rows) - known) == ((number, when) == (STEPS["create"], "after"))
    elif what == "upgrade":
        assert rows[agent]["generation"] == (2 if started else 1)
    else:
        assert (agent in rows) != started
    for one in set(rows) - {SYSTEM_AGENT}:
        await delete(shared, one)


async def test_the_steps_above_are_all_there_are(shared: Gateway) -> None:
    agent = await create(shared)
    await shared.new_conversation(agent)
    for what, count in STEPS.items():
        before = len((await shared.command(commits=True))["commits"])
        await change(shared, what, agent)
        await until_phase(shared, agent, None if what == "delete" else "ready")
        names = (await shared.command(commits=True))["commits"][before:]
        assert len(names) == count, (what, names)
    for one in set(await agents(shared)) - {SYSTEM_AGENT}:
        await delete(shared, one)
