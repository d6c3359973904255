"""Every way in which a Run ends, as docs/event-protocol.md lists them: each line of its table is brought about and checked."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import Awaitable, Callable

import pytest

from agent_builder.protocol.limits import CIRCUIT_OPEN_S, CONNECT_S, RUN_TREE_BYTES, TERMINAL_RETRY_S
from tests.support.fake_ollama import (
    FakeOllama,
    Gate,
    begun,
    call,
    calls,
    frame,
    gated,
    hang,
    last,
    line,
    prefill,
    raw,
    status,
    text,
    thinking,
)
from tests.support.followed import Followed, begin, hostile_workers, nothing_left
from tests.support.gateway import PROJECT, TERMINALS, Gateway
from tests.support.raw_stream import journal

pytestmark = pytest.mark.asyncio(loop_scope="module")
PASSAGE = "大连是一座滨海城市，经济与文化交流频繁，是重要的工业和旅游基地。"
PROFILE = "streams = 4\n"


def entry(name: str, lines: str) -> str:
    return f'\n[[models]]\nmodel_id = "{name}"\nlabel = "{name}"\nendpoint = "http://127.0.0.1:$PORT"\nprovider_model = "qwen3.5:2b"\nthink = false\n{lines}'


PATIENT = "[models.timeouts]\nidle_s = 500\nfirst_frame_s = 500\nsilent_call_s = 500\ncall_s = 1800\n"
ENTRIES = "".join((
    entry("slow", ""), entry("single", "streams = 1\n[models.timeouts]\nqueue_s = 5\n"), entry("brief", "[models.timeouts]\ncall_s = 10\n"),
    entry("short", f"{PATIENT}[models.budgets]\nrun_s = 30\napproval_s = 20\n"), entry("long", "[models.budgets]\nrun_s = 1800\n"),
))


def table() -> list[tuple[str, str, str, str]]:
    """path, terminal, reason or code, state of the Turn; in the order of the page."""
    page = (PROJECT / "docs/event-protocol.md").read_text()
    section = page.split("## Every way in which a Run ends")[1].split("## ")[0]
    rows = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in section.splitlines() if row.startswith("|")]
    assert rows[0] == ("path", "terminal", "`reason` or `code`", "Turn")
    return [(path, terminal.strip("`"), code.strip("`"), turn) for path, terminal, code, turn in rows[2:]]


class Scene:
    def __init__(self, gateway: Gateway, fake: FakeOllama) -> None:
        self.gateway, self.fake = gateway, fake

    async def answered(self, *steps: object, message: str = "hello", **more: object) -> Followed:
        self.fake.script(*steps)  # type: ignore[arg-type]
        return await (await begin(self.gateway, message, **more)).end()

    async def answering(self, **more: object) -> tuple[Followed, Gate]:
        """A Run whose answer has begun and goes on when the gate is opened."""
        gate = Gate()
        self.fake.script(gated(gate, text("the end"), before=begun("begin")))
        run = await begin(self.gateway, **more)
        await run.until("model.transport.attempt.finished")
        return run, gate


Scenario = Callable[[Scene], Awaitable[list[Followed]]]
SCENARIOS: dict[str, Scenario] = {}


def path(name: str) -> Callable[[Scenario], Scenario]:
    def add(scenario: Scenario) -> Scenario:
        assert name not in SCENARIOS
        SCENARIOS[name] = scenario
        return scenario

    return add


def answers(name: str, *steps: object, message: str = "hello", **more: object) -> None:
    """A path that needs nothing but these answers of the model."""
    async def scenario(scene: Scene) -> list[Followed]:
        return [await scene.answered(*steps, message=message, **more)]

    path(name)(scenario)


def late(name: str, seconds: float, model_id: str) -> None:
    """A path that is reached when so much time passes after the first frame."""
    async def scenario(scene: Scene) -> list[Followed]:
        run, _ = await scene.answering(model_id=model_id)
        await scene.gateway.advance(seconds)
        return [await run.end()]

    path(name)(scenario)


answers("the model answers to its end", text("fine"))
answers("the answer repeats itself and is cut", text("Once: " + PASSAGE * 60))
answers("the server counted far fewer tokens than were sent", text("nonsense", end=last(prompt=60)), message="word and " * 700)
answers("the connection breaks", raw(line(frame(content="half")), cut=True))
answers("the server does not have the model", status(404, {"error": "model 'qwen3.5:2b' not found"}))
answers("the model lacks a capability of its catalog entry", status(400, {"error": "registry.ollama.ai/library/m does not support tools"}))
answers("an answer without visible text or call", text(""))
answers("the output is spent on thinking", thinking("so much to think about", end=last("length")))
late("silence in the middle of an answer", 21, "test")
late("one model call takes too long", 11, "brief")
late("the Run's wall clock ends", 31, "short")


@path("the answer reaches the output cap or its visible bound")
async def _(scene: Scene) -> list[Followed]:
    unlike = "".join(f"{number} " for number in range(4000))
    return [await scene.answered(text("cut", end=last("length"))), await scene.answered(text(unlike, size=500))]


@path("the request does not fit, before the first call or before a later one")
async def _(scene: Scene) -> list[Followed]:
    refused = status(400, {"error": "the input length exceeds the context length"})
    return [
        await scene.answered(message="".join(f"{number:05d}" for number in range(6500))), await scene.answered(refused),
        await scene.answered(call("file_stat", path="none"), refused),
    ]


@path("the prompt cannot be evaluated before the deadline")
async def _(scene: Scene) -> list[Followed]:
    slow = last(prompt_eval_duration=10**12)
    await scene.answered(text("at last", end=slow), message="word and " * 100, model_id="slow")
    return [await scene.answered(message="word or " * 2000, model_id="slow")]


@path("no stream becomes free in time")
async def _(scene: Scene) -> list[Followed]:
    first, gate = await scene.answering(model_id="single")
    second = await begin(scene.gateway, model_id="single")
    await second.stage("model_queue")
    await scene.gateway.advance(6)
    await second.end()
    gate.open()
    assert (await first.end()).text == "beginthe end"
    return [second]


@path("the circuit of the model is open")
async def _(scene: Scene) -> list[Followed]:
    await scene.answered(status(503), status(503))
    return [await scene.answered()]


@path("no first frame in time, also on the second attempt")
async def _(scene: Scene) -> list[Followed]:
    scene.fake.script(hang(), hang())
    run = await begin(scene.gateway)
    for attempt in (1, 2):
        await run.until("model.transport.attempt.started", times=attempt)
        await scene.gateway.advance(61)
    return [await run.end()]


@path("the connection is not opened in time")
async def _(scene: Scene) -> list[Followed]:
    """A server that is there but takes no connection: its queue is full."""
    scene.fake.stop()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deaf.bind(("127.0.0.1", scene.fake.port))
        deaf.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", scene.fake.port))
        run = await begin(scene.gateway, model_id="long")
        async with asyncio.timeout(20):
            while "run.failed" not in run.types:
                if "model.request.started" in run.types:  # before it, the time would be the Worker's
                    await scene.gateway.advance(CONNECT_S + 1)
                await asyncio.sleep(0.05)
        for one in waiting:
            one.close()
    scene.fake.start()
    return [run]


@path("the server refuses the connection")
async def _(scene: Scene) -> list[Followed]:
    scene.fake.stop()
    run = await scene.answered()
    scene.fake.start()
    return [run]


@path("the server answers with a fault, or with an error line in its stream")
async def _(scene: Scene) -> list[Followed]:
    fault = line({"error": "an error was encountered while running the model: CUDA out of memory"})
    return [
        await scene.answered(status(500, {"error": "CUDA"}), status(500, {"error": "CUDA"})),
        await scene.answered(raw(line(frame(content="half")), line(frame(content="half")), fault), model_id="long"),
    ]


@path("a line that cannot be read, an end without `done`, too much, or impossible usage")
async def _(scene: Scene) -> list[Followed]:
    return [
        await scene.answered(raw(line(frame(content="half")), b"not json\n")), await scene.answered(raw(line(frame(content="half")))),
        await scene.answered(raw(b"x" * (2 << 20) + b"\n")), await scene.answered(text("x", end=last(prompt=-1))),
    ]


@path("tool calls that are repeated, out of order, at once or over the budget")
async def _(scene: Scene) -> list[Followed]:
    look = ("file_stat", {"path": "none"})
    spent = [call("file_stat", path=f"{number}") for number in range(3)]
    return [await scene.answered(calls(look, look)), await scene.answered(*spent)]


@path("the run root outgrows its bounds")
async def _(scene: Scene) -> list[Followed]:
    run, gate = await scene.answering()
    (root,) = scene.gateway.root.glob(f".runtime/agents/*/runs/{run.run_id}")
    with (root / "grown").open("wb") as file:
        file.truncate(RUN_TREE_BYTES + 1)
    await scene.gateway.advance(2)
    await run.end()
    gate.open()
    return [run]


@path("the Worker ends by itself or is killed")
async def _(scene: Scene) -> list[Followed]:
    run, gate = await scene.answering()
    (pid,) = scene.gateway.worker_pids()
    os.kill(pid, signal.SIGKILL)
    await run.end()
    gate.open()
    async with hostile_workers(scene.gateway):
        return [run, await scene.answered(message="attack: exits quietly")]


@path("the Worker sends what it must not")
async def _(scene: Scene) -> list[Followed]:
    async with hostile_workers(scene.gateway):
        return [await scene.answered(message="attack: says ready again"), await scene.answered(message="attack: sends binary")]


@path("nobody decides an approval in time")
async def _(scene: Scene) -> list[Followed]:
    scene.fake.script(call("file_write", path="new.txt", content="x"))
    run = await begin(scene.gateway, model_id="short")
    await run.until("permission.requested")
    await scene.gateway.advance(21)
    await run.end()
    assert [told["decision"] for told in run.of("permission.resolved")] == ["expired"]
    return [run]


@path("the Worker cannot be confined")
async def _(scene: Scene) -> list[Followed]:
    found = []
    for attack in ("says something else first", "is not confined"):
        async with hostile_workers(scene.gateway, attack):
            found.append(await scene.answered())
    return found


@path("a fault in the Gateway itself")
async def _(scene: Scene) -> list[Followed]:
    run, gate = await scene.answering()
    await scene.gateway.command(fail_at_commit=1)
    gate.open()
    return [await run.end()]


@path("the operator cancels: while preparing, loading, evaluating, answering, in a tool, or while an approval waits")
async def _(scene: Scene) -> list[Followed]:
    return [await cancelled(scene) for cancelled in (_preparing, _loading, _evaluating, _answering, _in_a_tool, _approving)]


async def _preparing(scene: Scene) -> Followed:
    gate, conversation = Gate(), await scene.gateway.new_conversation()
    for number in range(3):
        scene.fake.script(text(f"answer {number} " * 20))
        await scene.gateway.run(conversation, f"question {number}")
    kept, scene.fake.summary = scene.fake.summary, gated(gate, text("never"))
    before = len(scene.fake.summaries)
    run = await begin(scene.gateway, conversation=conversation, compact=True)
    await scene.fake._until(lambda: len(scene.fake.summaries) > before)
    await run.cancel()
    await run.end()
    assert "run.started" not in run.types
    gate.open()
    scene.fake.summary = kept
    return run


async def _loading(scene: Scene) -> Followed:
    scene.fake.loaded, scene.fake.load_gate = False, Gate()
    run = await begin(scene.gateway)
    await run.until("model.transport.attempt.started")
    await scene.gateway.advance(2)
    await run.stage("loading_model")
    await run.cancel()
    await run.end()
    scene.fake.load_gate.open()
    scene.fake.loaded, scene.fake.load_gate = True, None
    return run


async def _evaluating(scene: Scene) -> Followed:
    gate = Gate()
    scene.fake.script(prefill(gate))
    run = await begin(scene.gateway)
    await run.until("model.transport.attempt.started")
    await run.cancel()
    await run.end()
    gate.open()
    return run


async def _answering(scene: Scene) -> Followed:
    run, gate = await scene.answering()
    await run.cancel()
    await run.end()
    gate.open()
    return run


async def _in_a_tool(scene: Scene) -> Followed:
    for number in range(60):
        (scene.gateway.workspace / f"m{number}.py").write_text("".join(f"a{line} = [{line}, {line}]\n" for line in range(3000)))
    scene.fake.script(call("exec_run", command="runtime-compile"))
    run = await begin(scene.gateway)
    asked = await run.until("permission.requested")
    await scene.gateway.ok("POST", f"{scene.gateway.agent}/permissions/{asked['payload']['permission_id']}", {"decision": "approve"})
    await run.until("tool.call.started")
    await run.cancel()
    await run.end()
    for number in range(60):
        (scene.gateway.workspace / f"m{number}.py").unlink()
    return run


async def _approving(scene: Scene) -> Followed:
    scene.fake.script(call("file_write", path="new.txt", content="x"))
    run = await begin(scene.gateway)
    await run.until("permission.requested")
    await run.cancel()
    await run.end()
    assert [told["decision"] for told in run.of("permission.resolved")] == ["stale"]
    return run


@path("the Gateway is stopped in order")
async def _(scene: Scene) -> list[Followed]:
    run, gate = await scene.answering()
    assert await scene.gateway.stop() == 0
    await run.end()
    gate.open()
    await scene.gateway.start()
    await scene.gateway.login()
    return [run]


@path("the Gateway dies (kill -9, power), at any point; written at the next start")
async def _(scene: Scene) -> list[Followed]:
    run, gate = await scene.answering()
    await scene.gateway.kill()
    await run.end()
    gate.open()
    await scene.gateway.start()
    await scene.gateway.login()
    return [run]


@path("the disk is full when the terminal is due")
async def _(scene: Scene) -> list[Followed]:
    run, gate = await scene.answering()
    await scene.gateway.command(full=True)
    gate.open()
    await run.until("storage_full")
    busy = await scene.gateway.call("POST", f"{scene.gateway.agent}/sessions/{run.conversation}/runs", {"message": "next"})
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "conversation_busy")
    await scene.gateway.advance(TERMINAL_RETRY_S + 1)
    await run.until("storage_full", times=2)
    await scene.gateway.command(full=False)
    await scene.gateway.advance(TERMINAL_RETRY_S + 1)
    return [await run.end()]


PAIRS = (
    ("model.request.started", "model.response.finished"), ("model.transport.attempt.started", "model.transport.attempt.finished"),
    ("permission.requested", "permission.resolved"), ("tool.call.proposed", "tool.call.finished"),
)
AS_DUE = {"the disk is full when the terminal is due": ("run.completed", "stop", "completed")}


@pytest.mark.parametrize(("name", "terminal", "code", "state"), table(), ids=lambda value: re.sub(r"\W+", "-", value)[:40])
async def test_a_run_ends_as_the_table_says(shared: Gateway, shared_fake: FakeOllama, name: str, terminal: str, code: str, state: str) -> None:
    for run in await SCENARIOS[name](Scene(shared, shared_fake)):
        await ended_as(shared, run, *AS_DUE.get(name, (terminal, code, state)))
        await goes_on(shared, shared_fake, run, state)


async def settled(gateway: Gateway) -> None:
    """No circuit is open any more, and a Run has used up the Worker whose time to get ready has jumped ahead."""
    await gateway.advance(CIRCUIT_OPEN_S * 3)
    spent = await gateway.new_conversation()
    await gateway.run(spent, "settles")
    await gateway.ok("DELETE", f"{gateway.agent}/sessions/{spent}")


async def ended_as(gateway: Gateway, run: Followed, terminal: str, code: str, state: str) -> None:
    kept = await journal(gateway, run.run_id)
    types = [event["type"] for event in kept]
    assert [kind for kind in types if kind in TERMINALS] == [terminal] == types[-1:]
    end = kept[-1]["payload"]
    assert end.get("reason", end.get("code", "–")) == code
    for first, second in PAIRS:
        assert types.count(first) == types.count(second), types
    seen = [event for event in run.events if event["durability"] == "durable"]
    assert kept[: len(seen)] == seen
    turn = (await gateway.page(run.conversation))["turns"][-1]
    assert (turn["run_id"], turn["state"]) == (run.run_id, state)
    assert ("assistant_text" in turn) == (state == "completed")
    assert turn.get("error", {}).get("code", turn.get("reason", "–")) == code
    assert bool(turn["user_text"])
    await nothing_left(gateway)


async def goes_on(gateway: Gateway, fake: FakeOllama, run: Followed, state: str) -> None:
    """The Conversation takes a next Turn, and its model hears of this one only if it was completed."""
    fake.forget_script()
    await settled(gateway)
    after = await gateway.run(run.conversation, "and now?")
    assert after.text == "ok", after.terminal
    said = [message["content"] for message in fake.chats[-1]["messages"]]
    text_sent = (await gateway.page(run.conversation))["turns"][-2]["user_text"]
    assert (text_sent in said) == (state == "completed" or text_sent == "and now?" or state == "as above")


async def test_every_scenario_is_of_a_line_of_the_table() -> None:
    assert sorted(SCENARIOS) == sorted(name for name, *_ in table())
