"""What becomes of a delegation when one of the two Agents or Conversations goes."""

import asyncio

import pytest
import pytest_asyncio

from tests.support.delegating import Two, two_agents
from tests.support.fake_ollama import FakeOllama, Gate, gated, text
from tests.support.gateway import Gateway
from tests.support.tool_turns import outcomes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def two(shared: Gateway, shared_fake: FakeOllama) -> Two:
    return await two_agents(shared, shared_fake)


async def gone(two: Two, agent: str) -> None:
    """Returns when the Agent is deleted to its end."""
    async with asyncio.timeout(20):
        while (await two.gateway.call("GET", agent)).status_code != 404:
            await asyncio.sleep(0.01)


async def test_with_the_parents_conversation_goes_the_childs(two: Two) -> None:
    await two.run(two.ask(), text("yes"), text("fine"))
    await two.gateway.new_conversation(two.other)
    child = (await two.chain())[0]["child"]
    await two.gateway.ok("DELETE", f"{two.gateway.agent}/sessions/{two.conversation}")
    assert [one["conversation_id"] == child["conversation_id"] for one in await two.children()] == [False]
    assert (await two.gateway.call("GET", f"{two.bob}/runs/{child['run_id']}/events")).status_code == 404


async def test_what_the_operator_runs_in_the_childs_conversation_ends_with_it(two: Two) -> None:
    gate = Gate()
    await two.run(two.ask(), text("yes"), text("fine"), gated(gate, text("never")))
    child = (await two.chain())[0]["child"]["conversation_id"]
    await two.gateway.ok("POST", f"{two.bob}/sessions/{child}/runs", {"message": "and you?"})
    await two.fake.asked(two.first_chat + 4)
    await two.gateway.ok("DELETE", f"{two.gateway.agent}/sessions/{two.conversation}")
    gate.open()
    assert await two.children() == []
    await two.nothing_left()


async def test_a_parents_conversation_is_not_deleted_while_it_waits(two: Two) -> None:
    gate = Gate()
    asking = await two.begin(two.ask(), gated(gate, text("yes")), text("fine"))
    await two.fake.asked(two.first_chat + 2)
    for path in (f"{two.gateway.agent}/sessions/{two.conversation}", f"{two.bob}/sessions/{(await two.children())[0]['conversation_id']}"):
        answer = await two.gateway.call("DELETE", path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conversation_busy")
    gate.open()
    assert (await asking.ended()).text == "fine"


async def test_a_deleted_child_agent_gives_no_answer_and_the_chain_says_so(two: Two) -> None:
    gate = Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")), text("Bob is gone."))
    await two.fake.asked(two.first_chat + 2)
    await two.gateway.ok("DELETE", two.bob)
    run = await asking.ended()
    gate.open()
    assert (outcomes(run), run.text) == ([("failed", "child_cancelled")], "Bob is gone.")
    await gone(two, two.bob)
    (item,) = await two.chain()
    assert (item["state"], item["child"]["deleted"], item["child"]["agent_name"]) == ("cancelled", True, "Bob")
    assert not (two.gateway.root / "data/agents" / two.other).exists()
    await two.gateway.ok("DELETE", f"{two.gateway.agent}/sessions/{two.conversation}")


async def test_a_deleted_parent_agent_takes_its_children_along(two: Two) -> None:
    gate = Gate()
    alice = (await two.gateway.ok("POST", "/api/agents", {"name": "Alice"}))["agent_id"]
    path = f"/api/agents/{alice}"
    conversation = await two.gateway.new_conversation(alice)
    two.fake.script(two.ask(), gated(gate, text("never")))
    await two.gateway.ok("POST", f"{path}/sessions/{conversation}/runs", {"message": "ask Bob"})
    await two.decide(await asked_in(two, path), agent=path)
    await two.fake.asked(two.first_chat + 2)
    assert len(await two.children()) == 1
    await two.gateway.ok("DELETE", path)
    await gone(two, path)
    gate.open()
    async with asyncio.timeout(10):
        while await two.children():
            await asyncio.sleep(0.01)
    await two.nothing_left()


async def asked_in(two: Two, agent: str) -> str:
    async with asyncio.timeout(20):
        while not (items := (await two.gateway.ok("GET", f"{agent}/permissions"))["items"]):
            await asyncio.sleep(0.01)
    return str(items[0]["permission_id"])
