"""Background Tasks over HTTP, and whatever may end them: cancel, deletes, a stop, kill -9. Nothing of one is ever left."""

import asyncio

import httpx
import pytest
import pytest_asyncio

from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import ACTIVE_TASKS, STOP_S
from tests.support.capability import SLOW, put
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import SYSTEM_AGENT, Gateway, Json

pytestmark = pytest.mark.asyncio(loop_scope="module")
KIND = {"kind": "runtime-compile"}
COMMITS = 3  # of one Task: accepted, started, ended


class Tasks:
    """The Tasks of one Agent beside one finished Run."""

    def __init__(self, gateway: Gateway, agent: str) -> None:
        self.gateway, self.agent = gateway, f"/api/agents/{agent}"
        self.workspace = gateway.root / "data/agents" / agent / "workspace"
        self.conversation, self.run = "", ""

    @classmethod
    async def begin(cls, gateway: Gateway, agent: str = SYSTEM_AGENT) -> "Tasks":
        """In a workspace without sources."""
        made = cls(gateway, agent)
        for path in made.workspace.glob("*.py"):
            path.unlink()
        made.conversation = await gateway.new_conversation(agent)
        sent = await gateway.ok("POST", f"{made.agent}/sessions/{made.conversation}/runs", {"message": "hello"})
        made.run = sent["run_id"]
        async with gateway.client.stream("GET", f"{made.agent}/runs/{made.run}/events") as response:
            async for _ in response.aiter_raw():
                pass
        return made

    def slow_sources(self) -> None:
        for number in range(12):
            put(self.workspace, f"{number}.py", SLOW)

    async def submit(self) -> Json:
        response = await self.gateway.call("POST", f"{self.agent}/runs/{self.run}/tasks", KIND)
        assert response.status_code == 202, response.text
        return dict(response.json())

    async def get(self, task: Json) -> Json:
        return dict(await self.gateway.ok("GET", f"{self.agent}/tasks/{task['task_id']}"))

    async def ended(self, task: Json) -> Json:
        async with asyncio.timeout(20):
            while (found := await self.get(task))["state"] in ("queued", "running"):
                await asyncio.sleep(0.01)
        return found

    async def begun(self) -> Json:
        """One at work: its process is there."""
        self.slow_sources()
        task = await self.submit()
        async with asyncio.timeout(20):
            while not commands(self.gateway):
                await asyncio.sleep(0)
        return task


def roots(gateway: Gateway) -> list[str]:
    return [path.name for path in gateway.root.glob(".runtime/agents/*/tasks/*")]


def commands(gateway: Gateway) -> list[int]:
    return gateway.processes_in("/tasks/")


def nothing_left(gateway: Gateway) -> None:
    assert (commands(gateway), roots(gateway)) == ([], [])


async def code_of(gateway: Gateway, method: str, path: str, body: object = None) -> tuple[int, str]:
    response = await gateway.call(method, path, body)
    return response.status_code, response.json()["error"]["code"]


async def new_agent(gateway: Gateway) -> str:
    return str((await gateway.ok("POST", "/api/agents", {"name": "Other"}))["agent_id"])


@pytest_asyncio.fixture(loop_scope="module")
async def tasks(shared: Gateway, shared_fake: FakeOllama) -> Tasks:
    return await Tasks.begin(shared)


async def test_a_syntax_error_is_found_beside_the_conversation(tasks: Tasks, shared: Gateway) -> None:
    put(tasks.workspace, "good.py", "x = 1\n")
    put(tasks.workspace, "bad.py", "x = 1\ndef f(:\n")
    accepted = await tasks.submit()
    assert {key: accepted[key] for key in ("run_id", "conversation_id", "kind", "state")} == {
        "run_id": tasks.run, "conversation_id": tasks.conversation, "kind": "runtime-compile", "state": "queued",
    }
    task = await tasks.ended(accepted)
    assert (task["state"], task["code"]) == ("completed", "exit_code")
    assert task["result"].startswith("exit code 1\nbad.py:2: ")
    assert "2 files, 1 with errors" in task["result"]
    nothing_left(shared)
    (listed,) = [one for one in (await shared.ok("GET", f"{tasks.agent}/tasks"))["items"] if one["task_id"] == task["task_id"]]
    assert listed == {key: value for key, value in task.items() if key != "result"}
    (told,) = (await shared.ok("GET", f"{tasks.agent}/tasks/{task['task_id']}/notifications"))["items"]
    assert (told["position"], told["kind"], told["text"]) == (1, "completed", task["result"])
    assert [turn["user_text"] for turn in (await shared.page(tasks.conversation))["turns"]] == ["hello"]


async def test_a_task_asks_for_no_approval_and_takes_nothing_but_its_kind(tasks: Tasks, shared: Gateway) -> None:
    path = f"{tasks.agent}/runs/{tasks.run}/tasks"
    bodies: list[object] = [{}, {"kind": "bash"}, {"kind": "delegate"}, {"kind": "runtime-compile", "command": "true"}, ["runtime-compile"]]
    for body in bodies:
        assert await code_of(shared, "POST", path, body) == (400, "invalid_request")
    assert await code_of(shared, "POST", path) == (400, "invalid_request")
    put(tasks.workspace, "a.py", "x = 1\n")
    task = await tasks.submit()
    assert (await shared.ok("GET", f"{tasks.agent}/permissions"))["items"] == []
    assert (await tasks.ended(task))["state"] == "completed"


async def test_unknown_and_foreign_ids_are_not_found(tasks: Tasks, shared: Gateway) -> None:
    put(tasks.workspace, "a.py", "x = 1\n")
    task, other = await tasks.ended(await tasks.submit()), f"/api/agents/{await new_agent(shared)}"
    for agent, run, task_id in ((tasks.agent, new_id(), new_id()), (other, tasks.run, task["task_id"]), (f"/api/agents/{new_id()}", tasks.run, new_id())):
        assert await code_of(shared, "POST", f"{agent}/runs/{run}/tasks", KIND) == (404, "not_found")
        assert await code_of(shared, "POST", f"{agent}/tasks/{task_id}/cancel") == (404, "not_found")
        for rest in ("", "/notifications"):
            assert await code_of(shared, "GET", f"{agent}/tasks/{task_id}{rest}") == (404, "not_found")
    assert (await shared.ok("GET", f"{other}/tasks"))["items"] == []


async def test_four_wait_for_each_other_a_fifth_is_refused_and_each_can_be_cancelled(tasks: Tasks, shared: Gateway) -> None:
    started = [await tasks.begun(), *[await tasks.submit() for _ in range(ACTIVE_TASKS - 1)]]
    assert [(await tasks.get(task))["state"] for task in started] == ["running", "queued", "queued", "queued"]
    assert await code_of(shared, "POST", f"{tasks.agent}/runs/{tasks.run}/tasks", KIND) == (429, "run_limit")
    for task in reversed(started):
        assert (await shared.ok("POST", f"{tasks.agent}/tasks/{task['task_id']}/cancel"))["outcome"] == "accepted"
    ends = [await tasks.ended(task) for task in started]
    assert [(end["state"], "started_at" in end, "result" in end) for end in ends] == [("cancelled", True, False), *[("cancelled", False, False)] * 3]
    nothing_left(shared)
    assert (await shared.ok("POST", f"{tasks.agent}/tasks/{started[0]['task_id']}/cancel"))["outcome"] == "stale"


async def test_a_deleted_conversation_takes_its_running_task_with_it(tasks: Tasks, shared: Gateway) -> None:
    task = await tasks.begun()
    await shared.ok("DELETE", f"{tasks.agent}/sessions/{tasks.conversation}")
    nothing_left(shared)
    assert await code_of(shared, "GET", f"{tasks.agent}/tasks/{task['task_id']}") == (404, "not_found")
    assert await code_of(shared, "POST", f"{tasks.agent}/runs/{tasks.run}/tasks", KIND) == (404, "not_found")
    again = await Tasks.begin(shared)
    put(again.workspace, "a.py", "x = 1\n")
    assert (await again.ended(await again.submit()))["state"] == "completed"


async def test_a_run_that_is_active_has_tasks_too_and_a_refused_delete_ends_none(tasks: Tasks, shared: Gateway, shared_fake: FakeOllama) -> None:
    gate, tasks.conversation = Gate(), await shared.new_conversation()
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    tasks.run = (await shared.submit(tasks.conversation, "hello"))["run_id"]
    task = await tasks.begun()
    assert await code_of(shared, "DELETE", f"{tasks.agent}/sessions/{tasks.conversation}") == (409, "conversation_busy")
    assert (await tasks.get(task))["state"] == "running"
    gate.open()
    assert [event async for event in shared.events(tasks.run)][-1]["type"] == "run.completed"
    await shared.ok("DELETE", f"{tasks.agent}/sessions/{tasks.conversation}")
    nothing_left(shared)


@pytest.mark.parametrize("change", ["delete", "upgrade"])
async def test_a_changed_agent_ends_its_tasks_first(shared: Gateway, shared_fake: FakeOllama, change: str) -> None:
    agent = await new_agent(shared)
    tasks = await Tasks.begin(shared, agent)
    task = await tasks.begun()
    await (shared.ok("DELETE", tasks.agent) if change == "delete" else shared.ok("POST", f"{tasks.agent}/upgrade"))
    refused = await code_of(shared, "POST", f"{tasks.agent}/runs/{tasks.run}/tasks", KIND)
    assert refused in [(503, "agent_draining"), (404, "not_found")]
    async with asyncio.timeout(20):
        while (found := await shared.call("GET", tasks.agent)).status_code == 200 and found.json()["phase"] not in ("ready", "running"):
            await asyncio.sleep(0.01)
    nothing_left(shared)
    if change == "delete":
        assert not (shared.root / ".runtime/agents" / agent).exists()
        return
    assert (await tasks.get(task))["state"] == "cancelled"
    for path in tasks.workspace.glob("*.py"):
        path.unlink()
    put(tasks.workspace, "a.py", "x = 1\n")
    assert (await tasks.ended(await tasks.submit()))["state"] == "completed"


async def test_a_stop_ends_tasks_in_order(shared: Gateway, shared_fake: FakeOllama) -> None:
    tasks = await Tasks.begin(shared)
    task, waiting = await tasks.begun(), await tasks.submit()
    async with asyncio.timeout(STOP_S):
        assert await shared.stop() == 0
    nothing_left(shared)
    await shared.start()
    await shared.login()
    assert [(await tasks.get(one))["state"] for one in (task, waiting)] == ["cancelled", "cancelled"]


async def test_a_power_cut_interrupts_tasks_and_none_is_begun_again(shared: Gateway, shared_fake: FakeOllama) -> None:
    tasks = await Tasks.begin(shared)
    started = [await tasks.begun(), await tasks.submit()]
    await shared.kill()
    await shared.start()
    await shared.login()
    nothing_left(shared)
    for task in started:
        found = await tasks.get(task)
        assert (found["state"], "finished_at" in found, "result" in found) == ("interrupted", True, False)
        assert (await shared.ok("POST", f"{tasks.agent}/tasks/{task['task_id']}/cancel"))["outcome"] == "stale"


@pytest.mark.parametrize(("number", "when"), [(1, "before"), *((number, "after") for number in range(1, COMMITS + 1))])
async def test_the_gateway_is_killed_at_a_boundary_of_a_task(shared: Gateway, shared_fake: FakeOllama, number: int, when: str) -> None:
    tasks = await Tasks.begin(shared)
    put(tasks.workspace, "a.py", "x = 1\n")
    known = {task["task_id"] for task in (await shared.ok("GET", f"{tasks.agent}/tasks"))["items"]}
    await shared.command(kill_at_commit=number, when=when)
    try:
        await tasks.submit()
    except httpx.TransportError:
        pass  # what a client of a dying server gets
    await shared.killed()
    await shared.start()
    await shared.login()
    nothing_left(shared)
    states = [task["state"] for task in (await shared.ok("GET", f"{tasks.agent}/tasks"))["items"] if task["task_id"] not in known]
    assert states == ([] if (number, when) == (1, "before") else ["completed"] if (number, when) == (COMMITS, "after") else ["interrupted"])
    assert (await tasks.ended(await tasks.submit()))["state"] == "completed"
