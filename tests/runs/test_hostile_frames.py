"""The host's side of the IPC before a Worker that sends anything: over a hundred thousand generated frames, whole Runs and
single ones. The seed of what failed is in the message."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from agent_builder.protocol.errors import WorkerCrashed, WorkerProtocol
from agent_builder.protocol.events import Event
from agent_builder.protocol.frames import Final, ModelDone, Start, WorkerFrame, parse_worker, to_message
from agent_builder.protocol.framing import FramingError, decode_frame, encode_frame
from agent_builder.protocol.limits import IPC_TOTAL_FRAMES
from agent_builder.protocol.model_profile import Budgets
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.runs.run import Run
from agent_builder.runs.worker_process import WorkerHome
from agent_builder.worker.kernel import HarnessKernel
from tests.support.hostile_frames import HOSTILE, HostileFrames
from tests.support.piped_worker import Link, Piped, behave, piped
from tests.support.run_bench import Done, RunBench, proposed, run_bench, snapshot

READER_FRAMES = 100_000
RUNS, ITEMS_PER_RUN = 400, 60
FINAL = '{"kind":"final","call":1}'
ENDS = {"worker_protocol", "worker_crashed", "model_tool_loop"}


# one frame at a time ----------------------------------------------------------------------------------------------


def lines(seed: int) -> Iterator[tuple[bytes, WorkerFrame | None]]:
    """As many as one Worker may send; with each the frame that it is, where it is meant to be one."""
    source = HostileFrames(seed)
    for _ in range(IPC_TOTAL_FRAMES):
        if source.random.random() < 0.9:
            frame = source.frame()
            yield encode_frame(to_message(frame)), frame
        else:
            yield source.anything(), None


async def read_all(seed: int, home: WorkerHome) -> int:
    """The frames before the first wrong one come out as they went in; everything else is refused, nothing breaks."""
    sent = list(lines(seed))
    expected = [frame for _, frame in sent[: next(index for index, (_, frame) in enumerate(sent) if frame is None)]]

    async def attack(link: Link) -> None:
        data, pick = b"".join(line for line, _ in sent), Random(seed)
        while data:
            cut = pick.choice([1, 100, 4000, 70_000])
            link.write(data[:cut])
            data = data[cut:]
            await link.drain()

    received: list[WorkerFrame] = []
    async with piped(attack, home) as (host, _):
        try:
            while True:
                received.append(await host.receive())
        except WorkerProtocol:
            pass
        assert received[: len(expected)] == expected, f"seed {seed}"
        while True:
            try:
                await host.receive()
            except WorkerProtocol:
                continue
            except WorkerCrashed:
                return len(sent)


async def test_the_reader_gives_frames_or_refuses_them_whatever_comes(tmp_path: Path) -> None:
    home, done, seed = WorkerHome(tmp_path / "env", tmp_path / "root"), 0, 0
    while done < READER_FRAMES:
        done += await read_all(seed, home)
        seed += 1
    assert done >= READER_FRAMES


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_a_frame_in_another_encoding_is_none(encoding: str) -> None:
    assert parse_worker(decode_frame(FINAL.encode())) == Final(1)
    with pytest.raises(FramingError):
        decode_frame(FINAL.encode(encoding))


def test_half_a_surrogate_pair_in_raw_bytes_is_no_utf8() -> None:
    with pytest.raises(FramingError):
        decode_frame(b'{"kind":"failed","code":"\xed\xa0\x80"}')


# whole Runs --------------------------------------------------------------------------------------------------------


class Hostile:
    """Plays right often enough to come far, and wrong somewhere on the way."""

    def __init__(self, seed: int) -> None:
        self.source = HostileFrames(seed)
        self.faithful = self.source.random.choice([0.0, 0.5, 0.8, 0.95, 0.99])

    async def __call__(self, link: Link) -> None:
        pick, kernel = self.source.random, HarnessKernel(CATALOG)
        moves: list[WorkerFrame] = []
        for _ in range(ITEMS_PER_RUN):
            if pick.random() < 0.02:
                return
            if pick.random() < self.faithful and not kernel.finished:
                moves = moves or await self._next_moves(link, kernel)
                link.send(moves.pop(0))
            elif moves and pick.random() < 0.3:
                link.write(self.source.mutated(moves[0]))
            else:
                link.write(self.source.anything())
        await link.drain()

    async def _next_moves(self, link: Link, kernel: HarnessKernel) -> list[WorkerFrame]:
        while True:
            frame = await link.frame()
            if isinstance(frame, Start):
                self.source.start = frame
            if isinstance(frame, ModelDone):
                self.source.call_ids += [call.call_id for call in frame.calls]
            moves = kernel.step(frame)
            if moves:
                return moves


def prepare(bench: RunBench, pick: Random) -> list[str]:
    """What the model will say and which tools it may ask for; gives its texts."""
    bench.profile(Budgets(model_calls=pick.randrange(1, 12), tool_calls=pick.choice([1, 2, 8])), several_calls=pick.choice(["refuse", "in_order"]))
    calls = [
        proposed("file/read_text", path="a.md"), proposed("file/edit", path="a.md", old="one", new="two"), proposed("file/stat", path="b.md"),
        proposed("file/write", path="b.md", content="x"), proposed("exec/run", command="true"), proposed("file/grep", pattern="one"),
    ]
    texts = [f"answer {number} " * pick.randrange(1, 40) for number in range(12)]
    bench.model.answers.clear()
    for text in texts:
        if pick.random() < 0.7:
            bench.model.calls(*pick.sample(calls, pick.choice([1, 1, 1, 2])), text=pick.choice(["", text]))
        else:
            bench.model.says(text)
    return [*texts, "ok"]


def check(done: Done, texts: list[str], bench: RunBench, before: object, seed: int) -> None:
    told = f"seed {seed}: {done}"
    assert len(done.terminals) == 1 and done.events[-1].terminal, told
    assert [event.seq for event in done.events] == sorted({event.seq for event in done.events}), told
    assert done.journal[-1] == done.events[-1], told
    assert HOSTILE not in str(done), told
    assert done.terminal in ("run.completed", "run.cancelled") or done.code in ENDS, told
    assert done.turn.state == done.terminal.removeprefix("run."), told
    assert done.turn.assistant_text in (None, *texts), told
    assert all(start["tool_id"] not in ("file/edit", "file/write", "exec/run") for start in done.of("tool.call.started")), told
    assert snapshot(bench.workspace) == before, told
    assert not list(bench.runs_root.iterdir()), told
    assert not bench.permissions.pending(), told


async def hostile_runs(directory: Path, seeds: range) -> tuple[int, set[object]]:
    """Frames sent, and the ends that were seen."""
    sent, ends = 0, set()
    directory.mkdir()
    async with run_bench(directory) as bench:
        (bench.workspace / "a.md").write_text("one\n")
        (bench.workspace / "a.md").chmod(0o600)
        before = snapshot(bench.workspace)
        for seed in seeds:
            pick = Random(seed)
            texts = prepare(bench, pick)
            bench.decision = pick.choice(["deny", "deny", ""])

            def cancel(event: Event, run: Run, left_open: bool = not bench.decision) -> None:
                if left_open and event.type == "permission.requested":
                    run.cancel()

            worker = Piped(Hostile(seed))
            async with asyncio.timeout(60):
                done = await bench.run(worker, meanwhile=cancel)
            check(done, texts, bench, before, seed)
            sent += worker.sent
            ends.add(done.code or done.terminal)
            if seed % 20 == 0:
                bench.model.answers.clear()
                assert (await bench.run(Piped(behave))).turn.assistant_text == "ok"
    return sent, ends


async def test_no_hostile_run_has_an_effect_a_word_or_a_second_end(tmp_path: Path) -> None:
    share = RUNS // 4
    results = await asyncio.gather(*(hostile_runs(tmp_path / str(lane), range(lane * share, (lane + 1) * share)) for lane in range(4)))
    print(f"{sum(sent for sent, _ in results)} frames in {RUNS} Runs", file=sys.stderr)
    assert sum(sent for sent, _ in results) > RUNS * 10
    assert set.union(*(ends for _, ends in results)) == {"run.completed", "run.cancelled", *ENDS}
