"""A Gateway process in a checkout of its own, spoken to over HTTP; and what /proc tells about its processes."""

import asyncio
import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from bench_client import END, WAIT_S, Json, Seen, Wire, events, exchanges, message, noticed, request

PROJECT = Path(__file__).resolve().parents[1]
LOAD_S = 300
SYSTEM_AGENT = "00000000-0000-4000-8000-000000000001"
PYTHON_PATH = f"{PROJECT / 'src'}{os.pathsep}{PROJECT}"


class Provider:
    """The process of bench_provider.py."""

    def __init__(self, *, vocabulary: bool = False) -> None:
        self._more = ["--vocabulary"] if vocabulary else []

    async def __aenter__(self) -> "Provider":
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROJECT / "scripts/bench_provider.py"), *self._more, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.port = int(await self.process.stdout.readline())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.process.kill()
        await self.process.wait()


def catalog(endpoint: str, provider_model: str, more: str = "") -> str:
    return (
        f'default = "bench"\n[[models]]\nmodel_id = "bench"\nlabel = "Benchmark"\nendpoint = "{endpoint}"\n'
        f'provider_model = "{provider_model}"\nthink = false\n{more}'
    )


def make_checkout(root: Path, catalog_text: str) -> None:
    root.mkdir(parents=True)
    (root / "web").symlink_to(PROJECT / "web")
    (root / "models.toml").write_text(catalog_text)
    (root / "models.toml").chmod(0o600)


class Gateway:
    """`python -m agent_builder` over the checkout `root`. `prefix`: words before the command, as `strace …`.

    `start` gives the seconds from spawn to the first answer of /health."""

    def __init__(self, root: Path, provider_port: int, prefix: tuple[str, ...] = ()) -> None:
        self.root = root
        self.provider_port = provider_port
        self.agent = SYSTEM_AGENT
        self._prefix = prefix
        self._headers = ""
        self._idle: list[Wire] = []

    async def __aenter__(self) -> "Gateway":
        try:
            self.started_s = await self.start()
            await self.ready()
            await self._login()
        except BaseException:
            print((self.root / "gateway.log").read_text()[-2000:], file=sys.stderr)
            await self.stop()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    async def start(self) -> float:
        self.port = _free_port()
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": PYTHON_PATH, "AGENT_BUILDER_ROOT": str(self.root),
            "AGENT_BUILDER_HOST": "127.0.0.1", "AGENT_BUILDER_PORT": str(self.port),
            "AGENT_BUILDER_MODEL_CATALOG": str(self.root / "models.toml"), "HARNESS_V2_SEMANTIC_SUMMARY_V2": "0",
        }
        self._log = (self.root / "gateway.log").open("ab")
        began = time.monotonic()
        self.process = await asyncio.create_subprocess_exec(
            *self._prefix, sys.executable, "-m", "agent_builder", env=environment, cwd=self.root, stdout=self._log, stderr=self._log,
        )
        while self.process.returncode is None and time.monotonic() < began + WAIT_S:
            try:
                wire = await Wire.open(self.port)
            except OSError:
                await asyncio.sleep(0.002)
                continue
            wire.send(request("GET", "/health", port=self.port))
            await wire.whole()
            self._idle.append(wire)
            return time.monotonic() - began
        raise RuntimeError("the Gateway did not start")

    async def stop(self) -> None:
        for wire in self._idle:
            wire.close()
        self._idle.clear()
        if self.process.returncode is None:
            self.process.terminate() if not self._prefix else _terminate_child(self.process.pid)
        try:
            await asyncio.wait_for(self.process.wait(), WAIT_S)
        finally:
            if self.process.returncode is None:
                self.process.kill()
            self._log.close()

    @property
    def pid(self) -> int:
        """Of the Gateway itself."""
        return _children(self.process.pid)[0] if self._prefix else self.process.pid

    @property
    def workers(self) -> list[int]:
        return _children(self.pid)

    # requests -----------------------------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: object = None) -> tuple[Any, float]:
        """The answer, and the seconds it took."""
        wire = await self._wire()
        sent = wire.send(request(method, path, body, self._headers, self.port))
        status, data, arrived = await wire.whole()
        self._idle.append(wire)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: {status} {data[:300]!r}")
        return (json.loads(data) if data else None), arrived - sent

    async def ready(self, spares: int = 1) -> None:
        """Returns when the model is loaded, no Run is active and a spare Worker is parked."""
        async with asyncio.timeout(LOAD_S):
            while True:
                health, _ = await self.ask("GET", "/health")
                if health["status"] == "ready" and not health["active_runs"] and health["spare_workers"] >= spares:
                    return
                await asyncio.sleep(0.005)

    async def parked_anew(self, before: set[int]) -> None:
        """Returns when the spare is the only Worker and none of those `before`: of the Agent used last, with nothing going on."""
        async with asyncio.timeout(WAIT_S):
            while True:
                await self.ready()
                if len(self.workers) == 1 and not set(self.workers) & before:
                    return
                await asyncio.sleep(0.005)

    async def new_agent(self, name: str) -> str:
        return str((await self.ask("POST", "/api/agents", {"name": name}))[0]["agent_id"])

    async def new_conversation(self, agent: str | None = None) -> str:
        made, _ = await self.ask("POST", f"/api/agents/{agent or self.agent}/sessions", {})
        return str(made["conversation_id"])

    async def run(self, spec: Json, *, agent: str | None = None, conversation: str | None = None, wait: bool = True) -> Seen:
        """One Turn, in a Conversation of its own unless one is given; afterwards everything is at rest again (`wait`)."""
        agent = agent or self.agent
        place = conversation or await self.new_conversation(agent)
        sent, accepted, _, follower = await self.begin(agent, place, message(spec))
        await follower.until(END)
        found = events(follower.pieces)
        follower.close()
        texts = [(at, event["payload"]["text"]) for at, event in found if event.get("type") == "assistant.block.delta"]
        seen = Seen(sent, texts, found[-1][0], accepted, await exchanges(self.provider_port, spec.get("id", "")), found[-1][1]["type"])
        if seen.ending != "run.completed":
            raise RuntimeError(f"{spec}: {found[-1][1]}")
        if wait:
            await self.ready()
        if conversation is None:
            await self.ask("DELETE", f"/api/agents/{agent}/sessions/{place}")
        return seen

    async def cancel(self, spec: Json) -> float:
        """Seconds from sending the cancel to the provider's notice."""
        place = await self.new_conversation()
        _, _, run_id, follower = await self.begin(self.agent, place, message(spec))
        await follower.until(b"w0000")
        wire = await self._wire()
        sent = wire.send(request("POST", f"/api/agents/{self.agent}/runs/{run_id}/cancel", {}, self._headers, self.port))
        await follower.until(END)
        wire.close()
        follower.close()
        closed = await noticed(self.provider_port, spec["id"])
        await self.ready()
        await self.ask("DELETE", f"/api/agents/{self.agent}/sessions/{place}")
        return closed - sent

    async def begin(self, agent: str, conversation: str, text: str) -> tuple[float, float, str, Wire]:
        """Times of sending and of the 202, the Run, and a connection that follows it; both connections are open before."""
        wire, follower = await self._wire(), await Wire.open(self.port)
        data = request("POST", f"/api/agents/{agent}/sessions/{conversation}/runs", {"message": text}, self._headers, self.port)
        sent = wire.send(data)
        status, body, accepted = await wire.whole()
        if status != 202:
            raise RuntimeError(f"{status} {body[:300]!r}")
        run_id = str(json.loads(body)["run_id"])
        follower.send(request("GET", f"/api/agents/{agent}/runs/{run_id}/events", headers=self._headers, port=self.port))
        self._idle.append(wire)
        return sent, accepted, run_id, follower

    async def _wire(self) -> Wire:
        while self._idle:
            wire = self._idle.pop()
            if not wire.transport.is_closing():
                return wire
        return await Wire.open(self.port)

    async def _login(self) -> None:
        token = (self.root / ".runtime/secrets/web-bootstrap-token").read_text().strip()
        origin = f"Origin: http://127.0.0.1:{self.port}\r\n"
        wire = await Wire.open(self.port)
        wire.send(request("POST", "/api/login", {"token": token}, origin, self.port))
        _, body, _ = await wire.whole()
        head = b"".join(data for _, data in wire.pieces).partition(b"\r\n\r\n")[0].decode()
        cookie = next(line.partition(": ")[2].partition(";")[0] for line in head.split("\r\n") if line.lower().startswith("set-cookie"))
        self._headers = f"{origin}Cookie: {cookie}\r\nX-CSRF-Token: {json.loads(body)['csrf_token']}\r\n"
        self._idle.append(wire)


# processes -----------------------------------------------------------------------------------------------------


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def strace() -> str | None:
    return shutil.which("strace")


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _terminate_child(pid: int) -> None:
    for child in _children(pid):
        os.kill(child, 15)


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
