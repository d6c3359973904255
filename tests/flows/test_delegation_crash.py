"""The Gateway dies or stops in the middle of a delegation: both sides have one end, and nothing is asked twice."""

import httpx
import pytest

from tests.support.delegating import Two, two_agents
from tests.support.fake_ollama import FakeOllama, Gate, gated, text
from tests.support.gateway import Gateway

COMMITS = 28  # transactions of a whole delegation, from the parent's Turn to its terminal
POINTS = (11, 14, 22)  # behind the Task, the child's Turn, the end of the Task


async def restarted(two: Two) -> None:
    await two.gateway.start()
    await two.gateway.login()
    two.fake.forget_script()


async def test_a_restart_interrupts_both_sides_and_repeats_nothing(gateway: Gateway, fake: FakeOllama) -> None:
    two, gate = await two_agents(gateway, fake), Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")))
    await fake.asked(2)
    asking.reading.cancel()
    await gateway.kill()
    gate.open()
    await restarted(two)
    (item,), (parent,) = await two.chain(), (await gateway.page(two.conversation))["turns"]
    assert (item["state"], (await two.child_turn())["state"], parent["state"]) == ("interrupted",) * 3
    assert [one["direction"] for one in item["mailbox"]] == ["to_child"]
    events = (await gateway.ok("GET", f"{gateway.agent}/runs/{asking.run.run_id}/replay"))["items"]
    assert [one["payload"]["outcome"] for one in events if one["type"] == "tool.call.finished"] == ["outcome_unknown"]
    await two.nothing_left()
    assert len(fake.chats) == 2
    assert (await two.run(two.ask(), text("again"), text("fine"))).text == "fine"


@pytest.mark.parametrize("number", POINTS)
async def test_killed_anywhere_both_sides_have_one_end(gateway: Gateway, fake: FakeOllama, number: int) -> None:
    two = await two_agents(gateway, fake)
    await gateway.command(kill_at_commit=number, when="after")
    try:
        await two.run(two.ask(), text("yes"), text("fine"))
    except httpx.TransportError:
        pass  # what a client of a dying server gets
    await gateway.killed()
    await restarted(two)
    (parent,), children = (await gateway.page(two.conversation))["turns"], await two.children()
    assert parent["state"] in ("interrupted", "completed")
    for item in await two.chain():
        assert item["state"] in ("interrupted", "completed")
        assert [one["direction"] for one in item["mailbox"]] == ["to_child", "to_parent"][: 2 if item["state"] == "completed" else 1]
    assert {one["conversation_id"] for one in children} <= {item["child"]["conversation_id"] for item in await two.chain()}
    assert all("running_run_id" not in one for one in children)
    await gateway.ok("DELETE", f"{gateway.agent}/sessions/{two.conversation}")
    assert await two.children() == []


async def test_the_transactions_above_are_all_there_are(gateway: Gateway, fake: FakeOllama) -> None:
    two = await two_agents(gateway, fake)
    before = len((await gateway.command(commits=True))["commits"])
    await two.run(two.ask(), text("yes"), text("fine"))
    assert len((await gateway.command(commits=True))["commits"]) - before == COMMITS


async def test_a_crash_between_the_two_databases_leaves_no_orphan(gateway: Gateway, fake: FakeOllama) -> None:
    two = await two_agents(gateway, fake)
    await two.run(two.ask(), text("yes"), text("fine"))
    await gateway.command(kill_at_commit=1, when="after")
    with pytest.raises(httpx.TransportError):
        await gateway.call("DELETE", f"{gateway.agent}/sessions/{two.conversation}")
    await gateway.killed()
    await restarted(two)
    assert (await gateway.call("GET", f"{gateway.agent}/sessions/{two.conversation}")).status_code == 404
    assert await two.children() == []


async def test_an_orderly_stop_ends_both_runs(gateway: Gateway, fake: FakeOllama) -> None:
    two, gate = await two_agents(gateway, fake), Gate()
    asking = await two.begin(two.ask(), gated(gate, text("never")))
    await fake.asked(2)
    await gateway.stop()
    gate.open()
    assert (await asking.ended()).terminal["type"] == "run.cancelled"
    await restarted(two)
    (item,), (parent,) = await two.chain(), (await gateway.page(two.conversation))["turns"]
    assert (item["state"], (await two.child_turn())["state"], parent["state"]) == ("cancelled",) * 3
