"""The embedded model for tests: its environment and weights are prepared once in this checkout; servers run in checkouts of their own."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LOCAL_MODEL = PROJECT / ".runtime/local-model"
ANSWER_S = 300


def prepare(*modes: str) -> None:
    """Builds the environment and fetches the weights where they are missing (`small`, `smollm2`, `base`)."""
    subprocess.run(["bash", str(PROJECT / "scripts/lib/local_model_environment.sh")], check=True)
    if modes:
        subprocess.run([*_command(PROJECT), "fetch", *modes], check=True, env=_environment())


def share_with(checkout: Path) -> None:
    """Lets another checkout use the environment, the weights and the tools of this one."""
    (checkout / ".runtime/local-model").mkdir(parents=True, exist_ok=True)
    for name in ("venv", "weights"):
        (checkout / ".runtime/local-model" / name).symlink_to(LOCAL_MODEL / name)


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server. `catalog` is the file it wrote for the Gateway."""

    port: int
    key: str
    catalog: Path
    process: subprocess.Popen[bytes]
    log: Path

    def open(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[HTTPConnection, HTTPResponse]:
        """`body` is sent as JSON, a str as it is. The caller closes the connection."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        data = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, data, {"Authorization": f"Bearer {self.key}", **(headers or {})})
        return connection, connection.getresponse()

    def exchange(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, str, list[str]]:
        """Status, content type and the lines of the answer."""
        connection, response = self.open(method, path, body, headers)
        text = response.read().decode()
        connection.close()
        return response.status, response.getheader("Content-Type", ""), [line for line in text.split("\n") if line]


@contextmanager
def embedded_server(checkout: Path, *modes: str, model_file: Path | None = None) -> Iterator[EmbeddedServer]:
    """`checkout` is an empty folder; the server gets its own key and writes its own catalog there."""
    prepare(*modes)
    share_with(checkout)
    file = ["--model-file", str(model_file)] if model_file else []
    log = checkout / "server.log"
    command = [*_command(checkout), "serve", *modes, *file]
    with log.open("wb") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=_environment()) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["listening"]
            key = (checkout / ".runtime/local-model/key").read_text()
            yield EmbeddedServer(port, key, checkout / ".runtime/local-model/models.toml", process, log)
        finally:
            process.kill()


def _command(checkout: Path) -> list[str]:
    return [str(LOCAL_MODEL / "venv/bin/python"), "-m", "agent_builder.local_model", "--checkout", str(checkout)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT / "src"), "UV_SYSTEM_CERTS": "true"}
