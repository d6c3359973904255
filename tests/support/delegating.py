"""Two Agents of one Gateway, of which the system Agent asks the other one."""

from dataclasses import dataclass
from typing import Any

from tests.support.fake_ollama import FakeOllama, Step, call
from tests.support.gateway import Gateway, Json, RunResult


@dataclass
class Two:
    """`conversation`: of the system Agent, which asks. `other`: the id of the Agent that is asked, named Bob."""

    gateway: Gateway
    fake: FakeOllama
    conversation: str
    other: str

    def ask(self, message: str = "Please help", agent_id: str | None = None) -> Step:
        return call("agent_delegate", agent_id=agent_id or self.other, message=message)

    async def run(self, message: str = "ask Bob", *, decide: str = "approve", **more: Any) -> RunResult:
        return await self.gateway.run(self.conversation, message, decide=decide, **more)

    async def chain(self) -> list[Json]:
        path = f"{self.gateway.agent}/sessions/{self.conversation}/subagents"
        return list((await self.gateway.ok("GET", path))["items"])


async def two_agents(gateway: Gateway, fake: FakeOllama, name: str = "Bob") -> Two:
    other = (await gateway.ok("POST", "/api/agents", {"name": name}))["agent_id"]
    return Two(gateway, fake, await gateway.new_conversation(), other)
