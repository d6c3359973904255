"""The files of an Agent's workspace, to look at and to attach."""

import asyncio
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import ASGIApp

from agent_builder.gateway.answers import WorkspaceAnswer, WorkspaceEntryAnswer
from agent_builder.gateway.bodies import FileQuery, WorkspaceQuery
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.protocol.errors import AgentDamaged, AgentDraining
from agent_builder.protocol.limits import SEARCH_S
from agent_builder.tools.workspace_list import list_workspace, open_download

ALL = f"{AGENT}/workspace"
_RUNTIME = (AgentDraining, AgentDamaged)


async def list_files(call: Call) -> ASGIApp:
    asked, workspace, clock = call.sent(WorkspaceQuery), (await call.runtime()).workspace, call.services.clock
    end = clock.monotonic() + SEARCH_S
    found = await asyncio.to_thread(list_workspace, workspace, asked.prefix, asked.limit, lambda: clock.monotonic() > end)
    items = [
        WorkspaceEntryAnswer(path=one.path, bytes=one.bytes, attachable=one.attachable, reason=one.reason, reason_code=one.reason_code)
        for one in found.items
    ]
    return reply(WorkspaceAnswer(items=items, truncated=found.truncated))


async def download(call: Call) -> ASGIApp:
    """Always as a download of bytes: no file of a workspace is ever shown as a page."""
    path, workspace = call.sent(FileQuery).path, (await call.runtime()).workspace
    content = await asyncio.to_thread(open_download, workspace, path)
    name = quote(path.rpartition("/")[2], safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(content, headers=headers, media_type="application/octet-stream")


ENDPOINTS = (
    Endpoint("GET", ALL, "List workspace files", list_files, WorkspaceAnswer, query=WorkspaceQuery, errors=_RUNTIME),
    Endpoint("GET", f"{ALL}/file", "Download one workspace file, at most 1 MiB", download, "application/octet-stream",
             query=FileQuery, errors=_RUNTIME),
)
