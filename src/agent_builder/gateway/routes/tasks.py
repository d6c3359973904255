"""Background Tasks: start one beside a Run, follow it, cancel it."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import CancelTask, SubmitTask
from agent_builder.gateway.answers import (
    NotificationAnswer,
    NotificationsAnswer,
    OutcomeAnswer,
    TaskAnswer,
    TasksAnswer,
)
from agent_builder.gateway.bodies import SubmitTaskBody
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.gateway.routes.runs import ONE as RUN
from agent_builder.protocol.errors import AgentDamaged, AgentDraining, ConversationBusy, RunLimit, StorageFull
from agent_builder.storage.tasks import TaskRow

ALL = f"{AGENT}/tasks"
ONE = f"{ALL}/{{task_id}}"
_RUNTIME = (AgentDraining, AgentDamaged)


async def submit_task(call: Call) -> ASGIApp:
    call.sent(SubmitTaskBody)
    return reply(_shown(await call.services.bus.dispatch(SubmitTask(call.agent_id, call.run_id))), 202)


async def list_tasks(call: Call) -> ASGIApp:
    return reply(TasksAnswer(items=[_shown(row) for row in await (await call.runtime()).tasks.all()]))


async def read_task(call: Call) -> ASGIApp:
    return reply(_shown(await (await call.runtime()).tasks.get(call.path["task_id"])))


async def cancel_task(call: Call) -> ASGIApp:
    outcome = await call.services.bus.dispatch(CancelTask(call.agent_id, call.path["task_id"]))
    return reply(OutcomeAnswer(outcome=outcome), 202)


async def read_notifications(call: Call) -> ASGIApp:
    found = await (await call.runtime()).tasks.notifications(call.path["task_id"])
    return reply(NotificationsAnswer(items=[
        NotificationAnswer(position=one.position, created_at=one.created_at, kind=one.kind, text=one.text) for one in found
    ]))


def _shown(row: TaskRow) -> TaskAnswer:
    return TaskAnswer(
        task_id=row.task_id, run_id=row.run_id, conversation_id=row.conversation_id, kind=row.kind, state=row.state,
        created_at=row.created_at, started_at=row.started_at, finished_at=row.finished_at, code=row.code, result=row.result,
    )


ENDPOINTS = (
    Endpoint("POST", f"{RUN}/tasks", "Check the workspace's *.py files in the background", submit_task, TaskAnswer, 202, body=SubmitTaskBody,
             errors=(*_RUNTIME, StorageFull, RunLimit, ConversationBusy)),
    Endpoint("GET", ALL, "List Tasks, newest first, without their results", list_tasks, TasksAnswer, errors=_RUNTIME),
    Endpoint("GET", ONE, "Read a Task with its result", read_task, TaskAnswer, errors=_RUNTIME),
    Endpoint("POST", f"{ONE}/cancel", "Ask for the end of a Task", cancel_task, OutcomeAnswer, 202, errors=_RUNTIME),
    Endpoint("GET", f"{ONE}/notifications", "Read what was told about a Task", read_notifications, NotificationsAnswer, errors=_RUNTIME),
)
