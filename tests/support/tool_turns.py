"""Turns with tools before one shared Gateway: short words for what the tests of flows say again and again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.capability import put
from tests.support.fake_ollama import FakeOllama, Step
from tests.support.gateway import Gateway, Json, RunResult

ENTRY = (
    '\n[[models]]\nmodel_id = "{name}"\nlabel = "{name}"\nendpoint = "http://127.0.0.1:$PORT"\n'
    'provider_model = "qwen3.5:2b"\nthink = false\n{more}'
)


def entry(name: str, more: str) -> str:
    """One more catalog entry, for ENTRIES of a file with a shared Gateway."""
    return ENTRY.format(name=name, more=more + "\n")


@dataclass
class Turns:
    """One Conversation. `chats`: the requests since it began."""

    gateway: Gateway
    fake: FakeOllama
    conversation: str
    first_chat: int

    @classmethod
    async def begin(cls, gateway: Gateway, fake: FakeOllama) -> "Turns":
        """In an empty workspace."""
        for path in gateway.workspace.iterdir():
            if path.name != "agent-builder.md":
                path.unlink()
        return cls(gateway, fake, await gateway.new_conversation(), len(fake.chats))

    @property
    def chats(self) -> list[Json]:
        return self.fake.chats[self.first_chat :]

    @property
    def results(self) -> list[str]:
        """What the last request shows of tool results."""
        return [str(message["content"]) for message in self.chats[-1]["messages"] if message["role"] == "tool"]

    def file(self, path: str, content: bytes | str, mode: int = 0o600) -> Path:
        return put(self.gateway.workspace, path, content, mode)

    async def run(self, *steps: Step, message: str = "do it", decide: str | None = None, **more: Any) -> RunResult:
        """One Turn, its model playing `steps`. Whatever comes: one terminal, one result per call, nothing left behind."""
        self.fake.script(*steps)
        run = await self.gateway.run(self.conversation, message, decide=decide, **more)
        assert sum(kind in ("run.completed", "run.failed", "run.cancelled") for kind in run.types) == 1
        proposed = [one["call_id"] for one in run.of("tool.call.proposed")]
        assert [one["call_id"] for one in run.of("tool.call.finished")] == proposed
        for chat in self.chats:
            asked = [call["id"] for message in chat["messages"] for call in message.get("tool_calls", [])]
            assert [message["tool_call_id"] for message in chat["messages"] if message["role"] == "tool"] == asked
        assert not list(self.gateway.workspace.rglob(".agent-builder-*"))
        return run


def outcomes(run: RunResult) -> list[tuple[str, str | None]]:
    return [(one["outcome"], one.get("code")) for one in run.of("tool.call.finished")]
