"""The seven commands in a real Agent whose model server never answers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.commands.slash_commands import SLASH_COMMANDS
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, new_id
from agent_builder.storage.turns import get_turn_by_run
from tests.gateway.gateway_app import AGENT, Json, OpenGateway, open_gateway, silent_provider


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[OpenGateway]:
    async with silent_provider() as port, open_gateway(tmp_path, port) as opened:
        yield opened


async def say(gateway: OpenGateway, conversation: str, line: str) -> Json:
    answer = dict(await gateway.ok("POST", f"{AGENT}/sessions/{conversation}/commands", {"input": line}))
    assert (answer.pop("model_invoked"), answer.pop("turn_created")) == (False, False)
    return answer


def test_the_names_and_aliases_are_these() -> None:
    assert {one.name: one.aliases for one in SLASH_COMMANDS.commands} == {
        "status": (), "context": ("ctx",), "model": (), "compact": (), "permissions": ("perms",), "cancel": ("stop",), "clear": (),
    }


async def test_status_shows_agent_conversation_model_and_what_is_active(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation(title="Plan")
    await gateway.submit(conversation)
    lines = (await say(gateway, conversation, "/status"))["output"].splitlines()
    assert lines == [
        "Agent: Assistant (running, generation 1)", "Conversation: Plan, preparing", "Model: test (loading)", "Active Runs: 1",
        "Waiting for a decision: 0",
    ]


async def test_each_line_comes_with_its_code_and_what_fills_it_in(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation(title="Plan {phase}")
    answer = await say(gateway, conversation, "/status")
    assert [line["code"] for line in answer["lines"]] == [
        "status_agent", "status_conversation", "status_model", "status_active", "status_waiting",
    ]
    assert answer["lines"][1]["values"] == {"title": "Plan {phase}", "preparation": "idle"}
    assert answer["output"].splitlines()[1] == "Conversation: Plan {phase}, idle"


async def test_context_speaks_of_the_last_run_or_the_named_one(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    assert (await say(gateway, conversation, "/context"))["output"] == "This Conversation has no Run yet."
    run = (await gateway.submit(conversation))["run_id"]
    for line in ("/ctx", f"/context {run}"):
        assert (await say(gateway, conversation, line))["output"] == f"Run {run} was never admitted."
    for unknown in (new_id(), "nonsense"):
        assert (await say(gateway, conversation, f"/context {unknown}"))["output"] == "This Agent has no such Run."


async def test_model_lists_chooses_or_offers_the_nearest(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    assert "test: Test (default)" in (await say(gateway, conversation, "/model"))["output"]
    assert (await say(gateway, conversation, "/model test"))["parameter"] == {"model_id": "test"}
    wrong = await say(gateway, conversation, "/model tset")
    line = {"code": "model_unknown", "values": {"nearest": "test"}}
    assert wrong == {"output": "There is no such model. Nearest: test", "lines": [line]}


async def test_compact_and_clear_only_tell_the_page_what_to_send(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    before = await gateway.ok("GET", f"{AGENT}/sessions/{conversation}")
    assert (await say(gateway, conversation, "/compact"))["parameter"] == {"compact": True}
    assert (await say(gateway, conversation, "/clear"))["parameter"] == {"model_id": "test", "compact": False}
    assert await gateway.ok("GET", f"{AGENT}/sessions/{conversation}") == before


async def test_permissions_says_when_nothing_waits(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    for line in ("/permissions", "/perms"):
        assert (await say(gateway, conversation, line))["output"] == "Nothing waits for your decision."


async def test_cancel_stops_the_run_of_this_conversation_or_the_named_one(gateway: OpenGateway) -> None:
    first, second = await gateway.conversation(), await gateway.conversation()
    assert (await say(gateway, first, "/cancel"))["output"] == "There is no active Run to cancel."
    assert (await say(gateway, first, f"/cancel {new_id()}"))["output"] == "There is no active Run to cancel."
    own, other = (await gateway.submit(first))["run_id"], (await gateway.submit(second))["run_id"]
    assert (await say(gateway, first, "/stop"))["output"] == f"Run {own} is asked to stop."
    assert (await say(gateway, first, f"/cancel {other}"))["output"] == f"Run {other} is asked to stop."
    await gateway.active.idle()
    database = (await gateway.services.registry.runtime(SYSTEM_AGENT_ID)).database
    for run in (own, other):
        turn = await database.read(lambda conn, run=run: get_turn_by_run(conn, run))  # type: ignore[misc]
        assert turn is not None
        assert turn.state == "cancelled"


async def test_a_command_in_an_unknown_conversation_is_not_found(gateway: OpenGateway) -> None:
    answer = await gateway.call("POST", f"{AGENT}/sessions/{new_id()}/commands", {"input": "/status"})
    assert answer.status_code == 404
