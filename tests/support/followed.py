"""A Run that a test follows in the background, so that it can act when something has happened in it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from tests.support.gateway import PROJECT, SYSTEM_AGENT, Gateway, Json, RunResult


class Followed(RunResult):
    """`controls`: control frames. Reading goes on until the terminal, or until the Gateway is gone."""

    def __init__(self, gateway: Gateway, conversation: str, accepted: Json) -> None:
        super().__init__(accepted["run_id"], accepted["turn_id"])
        self.conversation = conversation
        self.operation_id = accepted["operation_id"]
        self.controls: list[Json] = []
        self._gateway = gateway
        self._came = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def until(self, kind: str, holds: Callable[[Json], bool] = lambda event: True, *, times: int = 1) -> Json:
        """The event (or control, by its kind) of this type that was awaited; the n-th one with `times`."""
        def found() -> list[Json]:
            return [item for item in (*self.events, *self.controls) if kind in (item["type"], item.get("kind")) and holds(item)]

        async with self._came, asyncio.timeout(30):
            await self._came.wait_for(lambda: len(found()) >= times or self._reading.done())
        assert len(found()) >= times, f"{kind} did not come: {self.types}"
        return found()[times - 1]

    async def stage(self, stage: str) -> None:
        await self.until("run.stage", lambda event: event["payload"]["stage"] == stage)

    async def end(self) -> "Followed":
        await asyncio.wait({self._reading}, timeout=40)
        assert self._reading.done(), f"no end came: {self.types}"
        await self._reading
        return self

    async def cancel(self) -> None:
        await self._gateway.ok("POST", f"{self._gateway.agent}/runs/{self.run_id}/cancel")

    async def _read(self) -> None:
        try:
            async for item in self._gateway.events(self.run_id, controls=True):
                async with self._came:
                    (self.events if "seq" in item else self.controls).append(item)
                    self._came.notify_all()
        except httpx.TransportError:
            pass  # the Gateway has died, as the test wished
        finally:
            async with self._came:
                self._came.notify_all()


async def begin(gateway: Gateway, message: str = "hello", conversation: str | None = None, **more: object) -> Followed:
    conversation = conversation or await gateway.new_conversation()
    return Followed(gateway, conversation, await gateway.submit(conversation, message, **more))


async def nothing_left(gateway: Gateway) -> None:
    """No slot is taken, no process works in a run root, and no run root is there. Waits: cleaning up follows the terminal."""
    left: list[object] = []
    for _ in range(2000):
        health = await gateway.ok("GET", "/health")
        left = [*range(health["active_runs"]), *gateway.worker_pids(), *gateway.root.glob(".runtime/agents/*/runs/*")]
        if not left:
            break
        await asyncio.sleep(0.01)
    assert left == []
    assert (await gateway.ok("GET", f"{gateway.agent}/permissions"))["items"] == []


@asynccontextmanager
async def hostile_workers(gateway: Gateway, attack: str = "") -> AsyncIterator[None]:
    """The system Agent's Workers are tests/support/hostile_worker.py inside the block; `attack` is one that comes before READY."""
    (worker_env,) = gateway.root.glob(f".runtime/agents/{SYSTEM_AGENT}/worker-env/*")
    program = worker_env / "worker/__main__.py"
    kept = program.read_bytes()
    compiled = {path: path.read_bytes() for path in program.parent.glob("__pycache__/__main__.*")}
    for path in compiled:
        path.unlink()
    program.write_bytes((PROJECT / "tests/support/hostile_worker.py").read_bytes())
    if attack:
        (worker_env / "attack").write_text(attack)
    try:
        await gateway.run(await gateway.new_conversation(), "uses the spare up")
        yield
    finally:
        (worker_env / "attack").unlink(missing_ok=True)
        program.write_bytes(kept)
        for path, content in compiled.items():
            path.write_bytes(content)
