"""The Gateway is asked to end, in the middle of everything: it ends in time, with status 0, and leaves only what it stored."""

import asyncio
import signal
from pathlib import Path

import pytest

from agent_builder.protocol.limits import STOP_FORCED_S, STOP_S
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, hang, text
from tests.support.followed import Followed, begin
from tests.support.gateway import SYSTEM_AGENT, Gateway
from tests.support.raw_stream import journal, never_reading


async def busy(gateway: Gateway, fake: FakeOllama, gate: Gate) -> list[Followed]:
    """Four Runs: one answers, one waits for its first frame, one for an approval, and one for a stream."""
    fake.script(gated(gate, text("end"), before=begun("begin")))
    answering = await begin(gateway)
    await answering.until("model.transport.attempt.finished")
    fake.script(call("file_write", path="new.txt", content="x"))
    asking = await begin(gateway)
    await asking.until("permission.requested")
    fake.script(hang())
    waiting = await begin(gateway)
    await waiting.until("model.transport.attempt.started")
    queued = await begin(gateway)
    await queued.stage("model_queue")
    return [answering, asking, waiting, queued]


@pytest.mark.parametrize(("signals", "limit"), [
    ([signal.SIGTERM], STOP_S), ([signal.SIGINT, signal.SIGINT], STOP_S), ([signal.SIGUSR1], STOP_FORCED_S), ([signal.SIGTERM, signal.SIGUSR1], STOP_S),
], ids=["in order", "twice", "forced", "in order, then forced"])
async def test_a_stop_ends_every_run_and_tells_every_client(tmp_path: Path, fake: FakeOllama, signals: list[signal.Signals], limit: int) -> None:
    gate = Gate()
    async with Gateway(tmp_path, fake.port) as gateway:
        runs = await busy(gateway, fake, gate)
        several = "/api/events?" + "&".join(f"run={SYSTEM_AGENT}/{run.run_id}@0" for run in runs)
        async with never_reading(gateway, several):
            process = gateway.process
            assert process is not None
            for number in signals:
                process.send_signal(number)
            async with asyncio.timeout(limit):
                assert await process.wait() == 0
        gateway._release()
        gate.open()
        for run in runs:
            await run.end()
            assert run.terminal["type"] == "run.cancelled"
        assert gateway.worker_pids() == []
        assert list(gateway.root.glob(".runtime/agents/*/runs/*")) == list(gateway.root.glob(".runtime/agents/*/spare/*")) == []
        assert [path.name for path in (gateway.root / "data").rglob("*-wal")] == []
        assert not (gateway.workspace / "new.txt").exists()
        await gateway.start()
        await gateway.login()
        for run in runs:
            assert [event["type"] for event in await journal(gateway, run.run_id)][-1] == "run.cancelled"
        assert (await gateway.run(runs[0].conversation, "and now?")).text == "ok"


async def test_while_it_stops_nothing_new_is_taken_and_health_says_so(tmp_path: Path, fake: FakeOllama) -> None:
    gate = Gate()
    async with Gateway(tmp_path, fake.port) as gateway:
        fake.script(gated(gate, text("end"), before=begun("begin")))
        run = await begin(gateway)
        await run.until("model.transport.attempt.finished")
        await gateway.command(full=True)  # its end cannot be written, so that the stop takes its time
        assert gateway.process is not None
        gateway.process.send_signal(signal.SIGTERM)
        await run.until("storage_full")
        assert (await gateway.ok("GET", "/health"))["status"] == "draining"
        late = await gateway.call("POST", f"{gateway.agent}/sessions/{run.conversation}/runs", {"message": "late"})
        assert (late.status_code, late.json()["error"]["code"]) == (503, "agent_draining")
        await gateway.command(full=False)
        await gateway.advance(6)
        async with asyncio.timeout(STOP_S):
            assert await gateway.process.wait() == 0
        gateway._release()
        await run.end()
        assert run.terminal["type"] == "run.cancelled"
