"""A real Gateway process in a checkout of its own, and a client that speaks to it as a browser would.

    async with Gateway(tmp_path, provider_port=fake.port) as gateway:
        conversation = await gateway.new_conversation()
        run = await gateway.run(conversation, "hello")
        assert run.terminal["type"] == "run.completed"
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

PROJECT = Path(__file__).resolve().parents[2]
GATEWAY_ROOT = "checkout 中文"
SYSTEM_AGENT = "00000000-0000-4000-8000-000000000001"
TERMINALS = {"run.completed", "run.failed", "run.cancelled", "run.interrupted"}
Json = dict[str, Any]
Act = Callable[[Json], Awaitable[object]]


@dataclass
class RunResult:
    run_id: str
    turn_id: str
    events: list[Json] = field(default_factory=list)

    @property
    def terminal(self) -> Json:
        return self.events[-1]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[Json]:
        return [event["payload"] for event in self.events if event["type"] == kind]

    @property
    def text(self) -> str:
        return "".join(payload["text"] for payload in self.of("assistant.message"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def catalog(port: int, profile: str = "", model: str = "qwen3.5:2b") -> str:
    """A catalog with one entry, whose id differs from the provider's name so that a leak would show."""
    return (
        f'default = "test"\n[[models]]\nmodel_id = "test"\nlabel = "Test"\nendpoint = "http://127.0.0.1:{port}"\n'
        f'provider_model = "{model}"\nthink = false\n{profile}'
    )


class Gateway:
    """`profile`: more lines of the catalog entry; `catalog_text` replaces the whole catalog; `ready_s`: how long the
    model may take to load."""

    def __init__(self, folder: Path, provider_port: int, *, profile: str = "", catalog_text: str | None = None, ready_s: float = 30, **environment: str) -> None:
        self.root = folder / GATEWAY_ROOT
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / "web").exists():
            (self.root / "web").symlink_to(PROJECT / "web")
        self.catalog = self.root / "models.toml"
        self.catalog.write_text(catalog_text or catalog(provider_port, profile))
        self.catalog.chmod(0o600)
        self.port = free_port()
        self.environment = environment
        self.ready_s = ready_s
        self.csrf = ""
        self.client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False)
        self.process: asyncio.subprocess.Process | None = None

    @property
    def workspace(self) -> Path:
        return self.root / "data/agents" / SYSTEM_AGENT / "workspace"

    @property
    def agent(self) -> str:
        return f"/api/agents/{SYSTEM_AGENT}"

    async def __aenter__(self) -> "Gateway":
        try:
            await self.start()
            await self.login()
        except BaseException:
            print(self.log_text())
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self.client.aclose()

    # process ------------------------------------------------------------------------------------------------

    async def start(self, *, ready: bool = True) -> None:
        """Returns when the port is open and, with `ready`, the model loaded; RuntimeError with the process's one line when
        it refuses to start."""
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}", "AGENT_BUILDER_ROOT": str(self.root),
            "AGENT_BUILDER_HOST": "127.0.0.1", "AGENT_BUILDER_PORT": str(self.port), "AGENT_BUILDER_MODEL_CATALOG": str(self.catalog),
            **self.environment,
        }
        self.log = open(self.root / "gateway.log", "ab")  # noqa: SIM115 - closed by stop
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.gateway_process", env=environment, cwd=self.root,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=self.log,
        )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 30)
        if not line:
            await self.process.wait()
            self._release()
            raise RuntimeError(self.log_text().strip().splitlines()[-1])
        if ready:
            await self.until_ready()

    def log_text(self) -> str:
        return (self.root / "gateway.log").read_text()

    async def until_ready(self) -> None:
        async with asyncio.timeout(self.ready_s):
            while (await self.client.get("/health")).json()["status"] == "loading":
                await asyncio.sleep(0.01)

    async def stop(self) -> int | None:
        if self.process is None:
            return None
        if self.process.returncode is None:
            self.process.terminate()
        try:
            status = await asyncio.wait_for(self.process.wait(), 20)
        finally:
            if self.process.returncode is None:
                self.process.kill()
            self._release()
        return status

    async def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        self._release()

    async def killed(self) -> None:
        """Waits for the end that a failpoint brings."""
        assert self.process is not None
        assert await asyncio.wait_for(self.process.wait(), 30) == -signal.SIGKILL
        self._release()

    def _release(self) -> None:
        """The process has ended."""
        assert self.process is not None
        self.process._transport.close()  # type: ignore[attr-defined]
        self.process = None
        self.log.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()
        await self.login()

    async def command(self, **command: object) -> Json:
        """Sends one command to the test build; see gateway_process.py."""
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        await self.process.stdin.drain()
        return dict(json.loads(await asyncio.wait_for(self.process.stdout.readline(), 30)))

    async def advance(self, seconds: float) -> None:
        await self.command(advance=seconds)

    def worker_pids(self) -> list[int]:
        """Processes whose working directory is a run root of this checkout."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    place = os.readlink(entry / "cwd")
                except OSError:
                    continue
                if place.startswith(f"{self.root}/.runtime/agents/") and "/runs/" in place:
                    found.append(int(entry.name))
        return found

    # HTTP ---------------------------------------------------------------------------------------------------

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """A request as the page would send it; `headers` with underscores replace or (empty) remove its own."""
        sent = {"Origin": f"http://127.0.0.1:{self.port}", "X-CSRF-Token": self.csrf}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        return await self.client.request(method, path, json=body, headers={k: v for k, v in sent.items() if v})

    async def ok(self, method: str, path: str, body: object = None) -> Any:
        response = await self.call(method, path, body)
        assert 200 <= response.status_code < 300, f"{method} {path}: {response.status_code} {response.text[:500]}"
        return response.json() if response.content else None

    async def login(self) -> None:
        token = (self.root / ".runtime/secrets/web-bootstrap-token").read_text().strip()
        self.csrf = (await self.ok("POST", "/api/login", {"token": token}))["csrf_token"]

    async def new_conversation(self, agent: str = SYSTEM_AGENT) -> str:
        return str((await self.ok("POST", f"/api/agents/{agent}/sessions", {}))["conversation_id"])

    async def submit(self, conversation: str, message: str, **more: object) -> Json:
        return dict(await self.ok("POST", f"{self.agent}/sessions/{conversation}/runs", {"message": message, **more}))

    async def page(self, conversation: str) -> Json:
        return dict(await self.ok("GET", f"{self.agent}/sessions/{conversation}"))

    async def run(
        self, conversation: str, message: str, *, decide: str | None = None, at: Mapping[str, Act] | None = None, **more: object
    ) -> RunResult:
        """Sends and reads events until the terminal; `decide` answers every approval. `at`: what is done when an event of this type comes."""
        accepted = await self.submit(conversation, message, **more)
        result = RunResult(accepted["run_id"], accepted["turn_id"])
        async for event in self.events(result.run_id):
            result.events.append(event)
            if decide and event["type"] == "permission.requested":
                decided = await self.decide(event, decide)
                assert decided.status_code == 200, decided.text
            if at and event["type"] in at:
                await at[event["type"]](event)
        return result

    async def decide(self, requested: Json, decision: str, **more: object) -> httpx.Response:
        """Answers this permission.requested."""
        return await self.call("POST", f"{self.agent}/permissions/{requested['payload']['permission_id']}", {"decision": decision, **more})

    def processes_in(self, mark: str) -> list[int]:
        """Those that work in a directory of this checkout with `mark` in its path, also when that is gone."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                place = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            found += [int(entry)] if place.startswith(f"{self.root}/") and mark in place.removeprefix(str(self.root)) else []
        return found

    async def events(self, run_id: str, after: int | None = None, *, controls: bool = False) -> AsyncIterator[Json]:
        """Events until the terminal or the end of the stream."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        async with self.client.stream("GET", f"{self.agent}/runs/{run_id}/events", headers=headers) as response:
            assert response.status_code == 200, (await response.aread(), response.status_code)
            async for event in sse(response):
                if controls or "seq" in event:
                    yield event
                if event.get("type") in TERMINALS:
                    return


async def sse(response: httpx.Response) -> AsyncIterator[Json]:
    """The data objects of a stream, framed as WHATWG says; a control frame has type `control`."""
    buffer = b""
    async for chunk in response.aiter_raw():
        buffer += chunk
        *blocks, buffer = buffer.split(b"\n\n")
        for block in blocks:
            fields = [line.partition(b": ") for line in block.split(b"\n") if not line.startswith(b":")]
            data = b"\n".join(value for name, _, value in fields if name == b"data")
            kind = next((value.decode() for name, _, value in fields if name == b"event"), "message")
            if data:
                yield {"type": kind, **json.loads(data)}
