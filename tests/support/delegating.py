"""Two Agents of one Gateway, of which the system Agent asks the other one."""

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.support.fake_ollama import FakeOllama, Step, call
from tests.support.gateway import Gateway, Json, RunResult


@dataclass
class Asking:
    """A Run that is read on to its terminal in the background."""

    run: RunResult
    reading: "asyncio.Task[None]"

    async def ended(self) -> RunResult:
        await asyncio.wait_for(self.reading, 30)
        return self.run


@dataclass
class Two:
    """`conversation`: of the system Agent, which asks. `other`: the id of the Agent that is asked. `first_chat`: counts the
    requests before these two began."""

    gateway: Gateway
    fake: FakeOllama
    conversation: str
    other: str
    first_chat: int

    @property
    def bob(self) -> str:
        return f"/api/agents/{self.other}"

    @property
    def chats(self) -> list[Json]:
        return self.fake.chats[self.first_chat :]

    @property
    def result(self) -> str:
        """The last result of a tool that a model was shown."""
        return str([message["content"] for message in self.chats[-1]["messages"] if message["role"] == "tool"][-1])

    def ask(self, message: str = "Please help", agent_id: str | None = None) -> Step:
        return call("agent_delegate", agent_id=agent_id or self.other, message=message)

    async def run(self, *steps: Step, message: str = "ask Bob", decide: str = "approve", **more: Any) -> RunResult:
        self.fake.script(*steps)
        return await self.gateway.run(self.conversation, message, decide=decide, **more)

    async def begin(self, *steps: Step, until: str = "tool.call.started", decide: str = "approve", **more: Any) -> Asking:
        """As far as an event of this type."""
        self.fake.script(*steps)
        accepted = await self.gateway.submit(self.conversation, "ask Bob", **more)
        run, reached = RunResult(accepted["run_id"], accepted["turn_id"]), asyncio.Event()

        async def read() -> None:
            async for event in self.gateway.events(run.run_id):
                run.events.append(event)
                if event["type"] == until:
                    reached.set()
                elif event["type"] == "permission.requested" and decide:
                    await self.decide(event["payload"]["permission_id"], decide)

        reading = asyncio.create_task(read())
        await asyncio.wait_for(reached.wait(), 20)
        return Asking(run, reading)

    async def decide(self, permission_id: str, decision: str = "approve", agent: str | None = None) -> None:
        await self.gateway.ok("POST", f"{agent or self.gateway.agent}/permissions/{permission_id}", {"decision": decision})

    async def chain(self) -> list[Json]:
        path = f"{self.gateway.agent}/sessions/{self.conversation}/subagents"
        return list((await self.gateway.ok("GET", path))["items"])

    async def child_turn(self) -> Json:
        """The one Turn of the newest child Conversation."""
        child = (await self.chain())[-1]["child"]
        (turn,) = (await self.gateway.ok("GET", f"{self.bob}/sessions/{child['conversation_id']}"))["turns"]
        return dict(turn)

    async def children(self) -> list[Json]:
        """The Conversations of the other Agent."""
        return list((await self.gateway.ok("GET", f"{self.bob}/sessions"))["items"])

    async def other_gone(self) -> None:
        """Returns when the other Agent is deleted to its end."""
        async with asyncio.timeout(20):
            while (await self.gateway.call("GET", self.bob)).status_code != 404:
                await asyncio.sleep(0.01)

    async def nothing_left(self) -> None:
        async with asyncio.timeout(10):
            while self.gateway.worker_pids() or list(self.gateway.root.glob(".runtime/agents/*/runs/*")):
                await asyncio.sleep(0.01)


async def two_agents(gateway: Gateway, fake: FakeOllama, name: str = "Bob") -> Two:
    other = (await gateway.ok("POST", "/api/agents", {"name": name}))["agent_id"]
    return Two(gateway, fake, await gateway.new_conversation(), other, len(fake.chats))
