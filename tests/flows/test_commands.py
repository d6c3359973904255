"""exec/run through a whole message: asked for, run confined, told truthfully, and nothing of it is left."""

import asyncio

import pytest
import pytest_asyncio

from agent_builder.protocol.limits import COMMAND_OUTPUT_BYTES
from tests.support.fake_ollama import FakeOllama, Step, call, text
from tests.support.gateway import Gateway, Json
from tests.support.tool_turns import Turns, outcomes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def turns(shared: Gateway, shared_fake: FakeOllama) -> Turns:
    return await Turns.begin(shared, shared_fake)


def command(line: str) -> Step:
    return call("exec_run", command=line)


async def nothing_left(turns: Turns) -> None:
    async with asyncio.timeout(10):
        while turns.gateway.worker_pids() or list(turns.gateway.root.glob(".runtime/agents/*/runs/*")):
            await asyncio.sleep(0.01)


async def test_a_syntax_error_is_reported_with_path_and_line(turns: Turns) -> None:
    turns.file("good.py", "x = 1\n")
    turns.file("bad.py", "def f(:\n    pass\n")
    run = await turns.run(command("runtime-compile"), text("bad.py, line 1."), decide="approve")
    assert outcomes(run) == [("failed", "exit_code")]
    assert turns.results[0].startswith("exit code 1\n")
    assert "bad.py:1" in turns.results[0].replace(", line ", ":") or 'bad.py", line 1' in turns.results[0]
    assert "good.py" in run.of("permission.requested")[0]["preview"]
    (receipt,) = [one["receipt"] for one in run.of("tool.call.finished")]
    assert (receipt["exit_code"], receipt["truncated"]) == (1, False)
    assert sorted(path.name for path in turns.gateway.workspace.iterdir()) == ["agent-builder.md", "bad.py", "good.py"]
    await nothing_left(turns)


async def test_after_the_repair_the_same_command_is_worth_repeating(turns: Turns) -> None:
    turns.file("bad.py", "x = (1\n")
    edit = call("file_write", path="other.txt", content="x")
    run = await turns.run(command("runtime-compile"), edit, text("Hm."), decide="approve")
    assert outcomes(run) == [("failed", "exit_code"), ("ok", None)]
    turns.file("bad.py", "x = (1)\n")
    run = await turns.run(command("runtime-compile"), text("All fine."), message="and now?", decide="approve")
    assert outcomes(run) == [("ok", None)]
    assert turns.results[-1].startswith("exit code 0")


@pytest.mark.parametrize(("line", "shown", "end"), [
    ("printf '%s\\n' hello", "exit code 0\nhello\n", ("ok", None)),
    ("printf %d%% 50", "exit code 0\n50%", ("ok", None)),
    ("true", "exit code 0, no output", ("ok", None)),
    ("false", "exit code 1, no output", ("failed", "exit_code")),
])
async def test_a_builtin_is_run_with_exactly_its_words(turns: Turns, line: str, shown: str, end: tuple[str, str | None]) -> None:
    run = await turns.run(command(line), text("Done."), decide="approve")
    assert (turns.results, outcomes(run)) == ([shown], [end])
    await nothing_left(turns)


@pytest.mark.parametrize("line", [
    "printf x | cat", "printf x > new.txt", "true; false", "true && false", "true &", "printf $HOME", "printf `id`", "printf $(id)", "X=1 true",
    "printf *", "printf ~", "printf {a,b}", "(true)", "cat a.txt", "git status", "pip install x", "bash -c true", "true\nfalse", "", "printf 'open",
    "runtime-compile bad.py", "printf 1 2 3 4 5 6 7 8 9", "source x", "exec true", "eval true",
])
async def test_everything_else_is_refused_without_a_question(turns: Turns, line: str) -> None:
    run = await turns.run(command(line), text("I cannot."), decide="approve")
    assert (outcomes(run), run.of("permission.requested"), run.text) == ([("refused", "command")], [], "I cannot.")
    assert turns.results[0].startswith("nothing was run: ")
    assert not (turns.gateway.workspace / "new.txt").exists()


async def test_a_denied_command_does_not_run(turns: Turns) -> None:
    run = await turns.run(command("true"), text("Denied."), decide="deny")
    assert (outcomes(run), "tool.call.started" in run.types) == ([("denied", "denied")], False)
    await nothing_left(turns)


async def test_output_past_its_bound_ends_the_command_and_is_told(turns: Turns) -> None:
    run = await turns.run(command("printf %20000d 1"), text("Much."), decide="approve")
    assert outcomes(run) == [("failed", "output")]
    assert len(turns.results[0].encode()) <= COMMAND_OUTPUT_BYTES
    (receipt,) = [one["receipt"] for one in run.of("tool.call.finished")]
    by_itself = "exit_code" in receipt  # so much fits into the pipe that Bash may end before it is killed
    assert (receipt.get("exit_code"), receipt.get("signal")) == ((0, None) if by_itself else (None, 9))
    told = "exit code 0, but" if by_itself else "stopped:"
    assert turns.results[0].startswith(f"{told} it wrote more than {COMMAND_OUTPUT_BYTES} bytes\n")
    await nothing_left(turns)


async def test_a_command_that_runs_when_its_run_is_cancelled_is_gone_with_its_directory(turns: Turns) -> None:
    """So much is to be compiled that it cannot be done when the cancel comes."""
    for number in range(12):
        turns.file(f"{number}.py", "x = [1, 2]\n" * 30_000)

    async def cancel(event: Json) -> None:
        await turns.gateway.ok("POST", f"{turns.gateway.agent}/runs/{event['run_id']}/cancel")

    run = await turns.run(command("runtime-compile"), text("never"), decide="approve", at={"tool.call.started": cancel})
    assert run.terminal["type"] == "run.cancelled"
    assert outcomes(run) == [("failed", "cancelled")]
    await nothing_left(turns)
    assert turns.gateway.processes_in(".command") == []
    turns.fake.forget_script()
    assert (await turns.run(text("Here."), message="still there?")).text == "Here."
