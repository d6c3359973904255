"""Event streams of one Run, and of several over one connection."""

import re

from starlette.types import ASGIApp

from agent_builder.gateway.bodies import StreamsQuery
from agent_builder.gateway.endpoint import Call, Endpoint, HeaderRule
from agent_builder.gateway.replay import open_replay, run_exists
from agent_builder.gateway.routes.runs import ONE as RUN
from agent_builder.gateway.sse import EventStream, Gone, Source
from agent_builder.protocol.errors import AgentDamaged, AgentDraining, InvalidRequest, NotFound, SubscriberLimit
from agent_builder.protocol.ids import is_id

_SEQ = re.compile(r"[0-9]{1,15}", re.ASCII)
_WANTED = re.compile(r"(?P<agent>[^/@]+)/(?P<run>[^/@]+)@(?P<after>[0-9]{1,15})", re.ASCII)
_RUNTIME = (AgentDraining, AgentDamaged)


async def stream_run(call: Call) -> ASGIApp:
    named = call.header(b"last-event-id")
    after = "0" if named is None else named
    if not _SEQ.fullmatch(after):
        raise InvalidRequest("Last-Event-ID must be a seq of this Run.", field="Last-Event-ID")
    if call.reads_headers_only:
        await _require_run(call)
        return EventStream([], call.services.clock)
    return EventStream([await _open(call, call.agent_id, call.run_id, int(after))], call.services.clock)


async def stream_runs(call: Call) -> ASGIApp:
    wanted = [_wanted(text) for text in call.sent(StreamsQuery).run]
    if len({run_id for _, run_id, _ in wanted}) < len(wanted):
        raise InvalidRequest("A Run may be named only once.", field="run")
    sources: list[Source] = []
    try:
        for agent_id, run_id, after in [] if call.reads_headers_only else wanted:
            sources.append(await _open_or_gone(call, agent_id, run_id, after))
    except BaseException:
        for source in sources:
            source.close()
        raise
    return EventStream(sources, call.services.clock, several=True)


async def _open(call: Call, agent_id: str, run_id: str, after: int) -> Source:
    """The live channel is opened first and history read second, so that nothing falls between the two."""
    await call.services.registry.get(agent_id)
    live = call.services.live.subscribe(agent_id, run_id, after)
    if live is None:
        return await open_replay((await call.services.registry.runtime(agent_id)).database, run_id, after)
    return live


async def _open_or_gone(call: Call, agent_id: str, run_id: str, after: int) -> Source:
    try:
        return await _open(call, agent_id, run_id, after)
    except (NotFound, AgentDraining, AgentDamaged):
        return Gone(run_id)


async def _require_run(call: Call) -> None:
    if not await run_exists((await call.runtime()).database, call.run_id):
        raise NotFound


def _wanted(text: str) -> tuple[str, str, int]:
    parts = _WANTED.fullmatch(text)
    if parts is None or not is_id(parts["agent"]) or not is_id(parts["run"]):
        raise InvalidRequest("A Run is named as <agent-id>/<run-id>@<after-seq>.", field="run")
    return parts["agent"], parts["run"], int(parts["after"])


ENDPOINTS = (
    Endpoint("GET", f"{RUN}/events", "Follow a Run (server-sent events)", stream_run, "text/event-stream",
             errors=(*_RUNTIME, SubscriberLimit), headers=(HeaderRule("Last-Event-ID", "The seq after which to resume", "^[0-9]{1,15}$"),)),
    Endpoint("GET", "/api/events", "Follow several Runs over one connection", stream_runs, "text/event-stream", query=StreamsQuery,
             errors=(SubscriberLimit,)),
)
