"""The operations over the real rooms, as a page uses them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.protocol.events import RunCancelled, RunStage
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, new_id
from agent_builder.protocol.limits import (
    CONVERSATIONS_PER_AGENT,
    SUBSCRIBERS,
    SUBSCRIBERS_PER_RUN,
    WORKSPACE_LIST,
)
from agent_builder.protocol.messages import Usage
from tests.gateway.events import identity, live_run
from tests.gateway.gateway_app import AGENT, REVEAL_TOKEN, OpenGateway, open_gateway, silent_provider
from tests.gateway.whatwg_sse import parse
from tests.support import stored


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[OpenGateway]:
    async with open_gateway(tmp_path) as opened:
        yield opened


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[OpenGateway]:
    """Its model server never answers, so that a Run stays active."""
    async with silent_provider() as port, open_gateway(tmp_path, port) as opened:
        yield opened


async def finished_run(gateway: OpenGateway, conversation: str) -> str:
    run = str((await gateway.submit(conversation))["run_id"])
    assert (await gateway.call("GET", f"{AGENT}/runs/{run}/events")).status_code == 200
    return run


async def error(gateway: OpenGateway, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    response = await gateway.call(method, path, body, **headers)
    return response.status_code, response.json()["error"]["code"]


async def test_agents_are_created_renamed_and_deleted(gateway: OpenGateway) -> None:
    made = await gateway.call("POST", "/api/agents", {"name": " Writer "})
    assert made.status_code == 201
    agent = made.json()
    assert (agent["name"], agent["system"], agent["generation"]) == ("Writer", False, 1)
    one = f"/api/agents/{agent['agent_id']}"
    assert (await gateway.ok("PATCH", one, {"name": "Editor"}))["name"] == "Editor"
    assert [item["name"] for item in (await gateway.ok("GET", "/api/agents"))["items"]] == ["Assistant", "Editor"]
    assert (await gateway.call("POST", f"{one}/upgrade", {})).status_code == 202
    while (await gateway.ok("GET", one))["phase"] == "upgrading":
        await gateway.clock.sleep(0.01)
    assert (await gateway.ok("GET", one))["generation"] == 2
    assert (await gateway.call("DELETE", one)).status_code == 202
    while (await gateway.call("GET", one)).status_code == 200:
        await gateway.clock.sleep(0.01)
    assert await error(gateway, "GET", one) == (404, "not_found")


@pytest.mark.parametrize(("method", "rest", "body"), [("PATCH", "", {"name": "x"}), ("DELETE", "", None), ("POST", "/upgrade", {})])
async def test_the_system_agent_is_protected(gateway: OpenGateway, method: str, rest: str, body: object) -> None:
    assert await error(gateway, method, f"{AGENT}{rest}", body) == (403, "protected_agent")
    assert (await gateway.ok("GET", AGENT))["name"] == "Assistant"


async def test_conversations_are_created_listed_renamed_and_deleted(gateway: OpenGateway) -> None:
    first = await gateway.conversation(title="First")
    gateway.clock.advance(1)
    second = await gateway.conversation()
    items = (await gateway.ok("GET", f"{AGENT}/sessions"))["items"]
    assert [item["conversation_id"] for item in items] == [second, first]
    assert (await gateway.ok("PATCH", f"{AGENT}/sessions/{first}", {"title": "Renamed"}))["title"] == "Renamed"
    page = await gateway.ok("GET", f"{AGENT}/sessions/{first}")
    assert (page["conversation"]["title"], page["turns"], page["page"]) == ("Renamed", [], {})
    deleted = await gateway.call("DELETE", f"{AGENT}/sessions/{first}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert await error(gateway, "GET", f"{AGENT}/sessions/{first}") == (404, "not_found")


async def test_the_hundredth_conversation_is_taken_and_the_next_one_refused(gateway: OpenGateway) -> None:
    for _ in range(CONVERSATIONS_PER_AGENT):
        await gateway.conversation()
    assert await error(gateway, "POST", f"{AGENT}/sessions", {}) == (409, "conversation_limit")


async def test_a_wrong_cursor_is_refused(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    assert await error(gateway, "GET", f"{AGENT}/sessions/{conversation}?before=turn-page-v2.xx") == (400, "invalid_session_cursor")


async def test_a_run_that_fails_shows_why_in_its_turn_stream_and_replay(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    run = await finished_run(gateway, conversation)
    (turn,) = (await gateway.ok("GET", f"{AGENT}/sessions/{conversation}"))["turns"]
    assert (turn["state"], turn["error"]["code"], turn["user_text"]) == ("failed", "model_unavailable", "hello")
    replay = await gateway.ok("GET", f"{AGENT}/runs/{run}/replay")
    assert [event["type"] for event in replay["items"]] == ["run.failed"]
    assert "next_after_seq" not in replay
    assert (await gateway.ok("GET", f"{AGENT}/runs/{run}/replay?after_seq={replay['items'][0]['seq']}"))["items"] == []
    assert (await gateway.ok("GET", f"{AGENT}/runs/{run}/capability-audit"))["items"] == []
    assert (await gateway.ok("GET", f"{AGENT}/runs/{run}/context"))["source"] == "none"


async def test_a_stream_resumes_behind_last_event_id_and_a_wrong_one_is_refused(gateway: OpenGateway) -> None:
    run = await finished_run(gateway, await gateway.conversation())
    whole = parse((await gateway.call("GET", f"{AGENT}/runs/{run}/events")).content)
    for at in range(len(whole) + 1):
        after = whole[at - 1].id if at else "0"
        answer = await gateway.call("GET", f"{AGENT}/runs/{run}/events", Last_Event_ID=after)
        assert parse(answer.content) == whole[at:]
    for wrong in ("", "x", "-1", "1.0", "9" * 16, f"{run}:1", "٣"):
        answer = await gateway.client.get(f"{AGENT}/runs/{run}/events", headers=[(b"Last-Event-ID", wrong.encode())])
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


async def test_a_stream_has_headers_against_buffering_and_storing(gateway: OpenGateway) -> None:
    run = await finished_run(gateway, await gateway.conversation())
    headers = (await gateway.call("GET", f"{AGENT}/runs/{run}/events")).headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers


async def test_several_runs_come_over_one_connection_and_an_unknown_one_is_gone(gateway: OpenGateway) -> None:
    runs = [await finished_run(gateway, await gateway.conversation()) for _ in range(2)]
    missing = new_id()
    wanted = "&".join(f"run={SYSTEM_AGENT_ID}/{run}@1" for run in [*runs, missing])
    sent = parse((await gateway.call("GET", f"/api/events?{wanted}")).content)
    assert {one.id for one in sent if one.type == "run.failed"} == {f"{run}:2" for run in runs}
    assert [json.loads(one.data) for one in sent if one.type == "control"] == [{"kind": "gone", "run_id": missing}]


@pytest.mark.parametrize("query", [
    "", "?run=", "?run=x", f"?run={SYSTEM_AGENT_ID}", f"?run={SYSTEM_AGENT_ID}/x@0", f"?run={SYSTEM_AGENT_ID}/{SYSTEM_AGENT_ID}",
    f"?run={SYSTEM_AGENT_ID}/{SYSTEM_AGENT_ID}@-1", f"?run={SYSTEM_AGENT_ID}/{SYSTEM_AGENT_ID}@1&run={SYSTEM_AGENT_ID}/{SYSTEM_AGENT_ID}@2",
    "?" + "&".join(f"run={SYSTEM_AGENT_ID}/{new_id()}@0" for _ in range(17)), f"?run={SYSTEM_AGENT_ID}/{SYSTEM_AGENT_ID}@1&x=1",
])
async def test_a_list_of_runs_that_cannot_be_read_is_refused(gateway: OpenGateway, query: str) -> None:
    assert await error(gateway, "GET", f"/api/events{query}") == (400, "invalid_request")


async def test_a_deleted_conversations_streams_are_not_found(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation()
    run = await finished_run(gateway, conversation)
    await gateway.ok("DELETE", f"{AGENT}/sessions/{conversation}")
    for rest in ("events", "replay", "context", "capability-audit"):
        assert await error(gateway, "GET", f"{AGENT}/runs/{run}/{rest}") == (404, "not_found")
    assert await error(gateway, "POST", f"{AGENT}/runs/{run}/cancel", {}) == (404, "not_found")


async def test_while_a_run_is_active_its_conversation_is_busy_and_cannot_be_deleted(waiting: OpenGateway) -> None:
    conversation = await waiting.conversation()
    run = await waiting.submit(conversation)
    one = f"{AGENT}/sessions/{conversation}"
    assert await error(waiting, "POST", f"{one}/runs", {"message": "again"}) == (409, "conversation_busy")
    assert await error(waiting, "DELETE", one) == (409, "conversation_busy")
    preparation = await waiting.ok("GET", f"{one}/preparation")
    assert preparation == {"state": "preparing", "operation_id": run["operation_id"]}
    (listed,) = (await waiting.ok("GET", f"{AGENT}/sessions"))["items"]
    assert listed["running_run_id"] == run["run_id"]
    assert (await waiting.ok("GET", AGENT))["running"] == 1


async def test_exactly_the_named_operation_is_cancelled(waiting: OpenGateway) -> None:
    conversation = await waiting.conversation()
    run = await waiting.submit(conversation)
    cancel = f"{AGENT}/sessions/{conversation}/preparation/cancel"
    stale = await waiting.call("POST", cancel, {"operation_id": new_id()})
    assert (stale.status_code, stale.json()) == (202, {"outcome": "stale"})
    accepted = await waiting.call("POST", cancel, {"operation_id": run["operation_id"]})
    assert (accepted.status_code, accepted.json()) == (202, {"outcome": "accepted"})
    sent = parse((await waiting.call("GET", f"{AGENT}/runs/{run['run_id']}/events")).content)
    assert sent[-1].type == "run.cancelled"
    await waiting.active.idle()
    assert await waiting.ok("GET", f"{AGENT}/sessions/{conversation}/preparation") == {"state": "idle", "operation_id": None}


async def test_a_run_is_cancelled_once_and_then_stale(waiting: OpenGateway) -> None:
    run = (await waiting.submit(await waiting.conversation()))["run_id"]
    cancel = f"{AGENT}/runs/{run}/cancel"
    assert (await waiting.ok("POST", cancel, {})) == {"outcome": "accepted"}
    await waiting.active.idle()
    assert (await waiting.ok("POST", cancel)) == {"outcome": "stale"}


async def test_the_fifth_run_is_refused_before_a_turn_exists(waiting: OpenGateway) -> None:
    for _ in range(4):
        await waiting.submit(await waiting.conversation())
    fifth = await waiting.conversation()
    assert await error(waiting, "POST", f"{AGENT}/sessions/{fifth}/runs", {"message": "x"}) == (429, "run_limit")
    assert (await waiting.ok("GET", f"{AGENT}/sessions/{fifth}"))["turns"] == []


async def test_the_same_request_id_gives_the_same_turn_and_never_another_message(waiting: OpenGateway) -> None:
    conversation, request = await waiting.conversation(), new_id()
    first = await waiting.submit(conversation, "one", client_request_id=request)
    assert await waiting.submit(conversation, "one", client_request_id=request) == first
    body = {"message": "two", "client_request_id": request}
    assert await error(waiting, "POST", f"{AGENT}/sessions/{conversation}/runs", body) == (409, "idempotency_mismatch")


async def test_a_stop_refuses_new_work_and_ends_every_stream_with_gone(waiting: OpenGateway) -> None:
    run = (await waiting.submit(await waiting.conversation()))["run_id"]
    source = waiting.live.subscribe(SYSTEM_AGENT_ID, run, 0)
    assert source is not None
    waiting.bus.drain()
    assert await error(waiting, "POST", f"{AGENT}/sessions", {}) == (503, "agent_draining")
    assert (await waiting.ok("GET", "/health"))["status"] == "draining"
    waiting.live.end_all()
    items = [*await source.batch(), *await source.batch()]
    assert [getattr(item, "kind", "event") for item in items][-1] == "gone"


async def test_continuing_keeps_the_conversation_and_branching_makes_one(gateway: OpenGateway) -> None:
    conversation = await gateway.conversation(title="Trunk")
    same = await gateway.call("POST", f"{AGENT}/sessions/{conversation}/continue", {"mode": "continue"})
    assert (same.status_code, same.json()["conversation_id"]) == (200, conversation)
    assert await error(gateway, "POST", f"{AGENT}/sessions/{conversation}/continue", {"mode": "branch"}) == (400, "invalid_request")
    database = (await gateway.services.registry.runtime(SYSTEM_AGENT_ID)).database
    await database.run(lambda conn: stored.completed(conn, conversation))
    branch = await gateway.call("POST", f"{AGENT}/sessions/{conversation}/continue", {"mode": "branch"})
    assert branch.status_code == 201
    assert branch.json()["conversation_id"] != conversation


async def test_workspace_files_are_listed_and_only_ever_downloaded(gateway: OpenGateway, tmp_path: Path) -> None:
    workspace = tmp_path / "data/agents" / SYSTEM_AGENT_ID / "workspace"
    (workspace / "页 <b>.html").write_text("<script>")
    (workspace / "页 <b>.html").chmod(0o600)
    listing = await gateway.ok("GET", f"{AGENT}/workspace?prefix=%E9%A1%B5")
    assert listing == {"items": [{"path": "页 <b>.html", "bytes": 8, "attachable": True}], "truncated": False}
    file = await gateway.client.get(f"{AGENT}/workspace/file", params={"path": "页 <b>.html"})
    assert (file.status_code, file.content) == (200, b"<script>")
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''%E9%A1%B5%20%3Cb%3E.html"
    assert await error(gateway, "GET", f"{AGENT}/workspace/file?path=missing") == (404, "not_found")
    assert await error(gateway, "GET", f"{AGENT}/workspace/file?path=../state.sqlite") == (400, "invalid_request")
    assert await error(gateway, "GET", f"{AGENT}/workspace?limit={WORKSPACE_LIST + 1}") == (400, "invalid_request")


async def test_an_unknown_permission_is_not_found(gateway: OpenGateway) -> None:
    assert await gateway.ok("GET", f"{AGENT}/permissions") == {"items": []}
    assert await error(gateway, "GET", f"{AGENT}/permissions/{new_id()}") == (404, "not_found")
    assert await error(gateway, "POST", f"{AGENT}/permissions/{new_id()}", {"decision": "approve"}) == (404, "not_found")


async def test_slash_commands_are_listed_and_carried_out_without_a_model(gateway: OpenGateway) -> None:
    names = [item["name"] for item in (await gateway.ok("GET", f"{AGENT}/commands"))["items"]]
    assert names == ["status", "context", "model", "compact", "permissions", "cancel", "clear"]
    conversation = await gateway.conversation()
    answer = await gateway.ok("POST", f"{AGENT}/sessions/{conversation}/commands", {"input": "/model test"})
    assert answer == {
        "output": "The next message goes to test.", "lines": [{"code": "model_chosen", "values": {"model_id": "test"}}],
        "parameter": {"model_id": "test"}, "model_invoked": False, "turn_created": False,
    }
    assert (await gateway.ok("GET", f"{AGENT}/sessions/{conversation}"))["turns"] == []
    assert await error(gateway, "POST", f"{AGENT}/sessions/{conversation}/commands", {"input": "hello"}) == (400, "invalid_request")


async def test_the_reveal_is_off_unless_it_was_switched_on(gateway: OpenGateway) -> None:
    run = await finished_run(gateway, await gateway.conversation())
    path = f"{AGENT}/runs/{run}/context/reveal"
    assert await error(gateway, "POST", path, {"section": 0}, X_Context_Reveal_Token=REVEAL_TOKEN) == (404, "not_found")


async def test_the_reveal_takes_a_secret_of_its_own(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, reveal=True) as gateway:
        run = await finished_run(gateway, await gateway.conversation())
        path = f"{AGENT}/runs/{run}/context/reveal"
        assert await error(gateway, "POST", path, {"section": 0}) == (401, "unauthenticated")
        assert await error(gateway, "POST", path, {"section": 0}, X_Context_Reveal_Token="x" * 64) == (401, "unauthenticated")
        assert await error(gateway, "POST", path, {"section": 0}, X_Context_Reveal_Token=REVEAL_TOKEN) == (404, "not_found")


async def test_sixty_four_follow_and_the_next_one_is_refused_whatever_run_it_asks_for(gateway: OpenGateway) -> None:
    runs = [identity(SYSTEM_AGENT_ID) for _ in range(SUBSCRIBERS // SUBSCRIBERS_PER_RUN + 1)]
    for run in runs:
        live_run(gateway.live, run, RunStage(stage="preparing"), RunCancelled(usage=Usage(), elapsed_ms=1))
    places = [gateway.live.subscribe(SYSTEM_AGENT_ID, run.run_id, 0) for run in runs[:-1] for _ in range(SUBSCRIBERS_PER_RUN)]
    wanted = runs[-1].run_id
    for path in (f"{AGENT}/runs/{wanted}/events", f"/api/events?run={SYSTEM_AGENT_ID}/{wanted}@0"):
        refused = await gateway.call("GET", path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "subscriber_limit")
    freed = places[0]
    assert freed is not None
    freed.close()
    assert (await gateway.call("GET", f"{AGENT}/runs/{wanted}/events")).text.count("id: ") == 2
