"""Crash and restart, over and over: a Gateway does random work, dies at a random boundary or moment, is started again (and sometimes
dies in that), and is compared with what its clients were told.

    async with Soak(folder, seed=1) as soak:
        for _ in range(200):
            await soak.round()

Held against the Gateway after every restart: what was accepted is there, once; what was seen to end has that end; each Run has one
terminal and an end for each beginning; what was deleted is gone; no process, directory, file or row is left over.
"""

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx

from tests.support.fake_ollama import Answer, FakeOllama, Json, call, text
from tests.support.gateway import SYSTEM_AGENT, TERMINALS, Gateway

PAIRS = (
    ("model.request.started", "model.response.finished"), ("model.transport.attempt.started", "model.transport.attempt.finished"),
    ("permission.requested", "permission.resolved"), ("tool.call.proposed", "tool.call.finished"),
)
WORKERS, STEPS, DEEPEST_COMMIT, START_COMMITS = 3, 4, 30, 8
MOST_AGENTS, MOST_CONVERSATIONS = 6, 40
LONGEST_WORK_S = 60.0
OLD, NEW = "teh\n", "the\n"


@dataclass
class Sent:
    """A message, and what its sender was told of it. `file`: what the Turn is to edit."""

    message: str
    request_id: str
    file: Path | None
    run_id: str | None = None
    terminal: str | None = None


@dataclass
class Talk:
    """A Conversation as its clients know it. `certain`: it is known to be there."""

    agent: str
    conversation: str
    sent: list[Sent] = field(default_factory=list)
    leaving: bool = False


async def brain(answer: Answer, body: Json) -> None:
    """Answers a message with itself, in pieces; one that begins with "edit" by reading and changing its file first."""
    messages = body["messages"]
    last = max(index for index, message in enumerate(messages) if message["role"] == "user" and str(message["content"]).split()[0] in ("edit", "say"))
    words = str(messages[last]["content"]).split()
    done = sum(message["role"] == "tool" for message in messages[last:])
    if words[0] == "edit" and done == 0:
        step = call("file_read_text", path=words[1])
    elif words[0] == "edit" and done == 1:
        step = call("file_edit", path=words[1], old="teh", new="the")
    else:
        step = text(f"answer to {' '.join(words)}", size=5, gap=0.001)
    await step(answer, body)


class Soak:
    """One checkout and what happened in it. `chance` decides everything."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fake = FakeOllama()
        self.folder = folder
        self.talks: dict[str, Talk] = {}
        self.gone: dict[str, str] = {}  # deleted Conversations and their Agents
        self.agents: set[str] = {SYSTEM_AGENT}
        self.leaving: set[str] = set()  # Agents whose deletion was asked for
        self.told: Counter[str] = Counter()

    async def __aenter__(self) -> "Soak":
        self.fake.start()
        self.gateway = Gateway(self.folder, self.fake.port, profile="streams = 4\n")
        await self.gateway.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._bury()
        await self.gateway.client.aclose()
        self.fake.stop()

    async def round(self) -> None:
        self.fake.forget_script()
        self.fake.script(*[brain] * 200)
        if self.chance.random() < 0.7:
            await self.gateway.command(kill_at_commit=self.chance.randint(1, DEEPEST_COMMIT), when=self.chance.choice(("before", "after")))
        working = asyncio.gather(*[self._work() for _ in range(WORKERS)])
        patience = self.chance.choice((0.2, 1.0, LONGEST_WORK_S))
        done, _ = await asyncio.wait({working, asyncio.create_task(self._dead())}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        assert done or patience < LONGEST_WORK_S, "the work hangs"
        await self._bury()
        async with asyncio.timeout(LONGEST_WORK_S):
            await working
        await self._start()
        await self.check()
        self.told["rounds"] += 1

    # dying and starting ----------------------------------------------------------------------------------------------

    async def _dead(self) -> None:
        assert self.gateway.process is not None
        await self.gateway.process.wait()

    async def _bury(self) -> None:
        process = self.gateway.process
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()
            self.gateway._release()

    async def _start(self) -> None:
        """Sometimes dies in it first, perhaps more than once."""
        while self.chance.random() < 0.25:
            self.gateway.environment["KILL_AT_COMMIT"] = str(self.chance.randint(1, START_COMMITS))
            try:
                await self.gateway.start()
            except (RuntimeError, IndexError, httpx.TransportError):
                self.told["died in its start"] += 1
            await self._bury()
            del self.gateway.environment["KILL_AT_COMMIT"]
        await self.gateway.start()
        await self.gateway.login()

    # random work -------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        acts: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._say, 6), (self._edit, 4), (self._converse, 3), (self._branch, 2), (self._delete, 2), (self._rename, 1),
            (self._create_agent, 1), (self._delete_agent, 1), (self._upgrade_agent, 1),
        ]
        try:
            for _ in range(STEPS):
                (act,) = self.chance.choices([act for act, _ in acts], [weight for _, weight in acts])
                await act()
        except httpx.TransportError:
            pass  # the Gateway has died; that is what this is for

    async def _call(self, method: str, path: str, body: object = None, *, answers: tuple[int, ...]) -> httpx.Response:
        response = await self.gateway.call(method, path, body)
        assert response.status_code in (*answers, 404, 409, 429, 503), f"{method} {path}: {response.status_code} {response.text[:300]}"
        return response

    def _talk(self) -> Talk | None:
        there = [talk for talk in self.talks.values() if not talk.leaving and talk.agent not in self.leaving]
        return self.chance.choice(there) if there else None

    async def _say(self) -> None:
        if talk := self._talk():
            await self._send(talk, Sent(f"say {uuid4()}", str(uuid4()), None))

    async def _edit(self) -> None:
        if talk := self._talk():
            file = self._workspace(talk.agent) / f"{uuid4()}.md"
            if file.parent.is_dir():
                file.write_text(OLD)
                await self._send(talk, Sent(f"edit {file.name}", str(uuid4()), file))

    async def _send(self, talk: Talk, sent: Sent) -> None:
        talk.sent.append(sent)
        body = {"message": sent.message, "client_request_id": sent.request_id}
        answer = await self._call("POST", f"/api/agents/{talk.agent}/sessions/{talk.conversation}/runs", body, answers=(202,))
        if answer.status_code != 202:
            talk.sent.remove(sent)
            return
        sent.run_id = answer.json()["run_id"]
        self.told["turns accepted"] += 1
        await self._follow(talk, sent)

    async def _follow(self, talk: Talk, sent: Sent) -> None:
        runs = f"/api/agents/{talk.agent}/runs/{sent.run_id}"
        events, cancelled_at = 0, self.chance.randint(1, 40) if self.chance.random() < 0.3 else 0
        async with self.gateway.client.stream("GET", f"{runs}/events") as response:
            async for line in response.aiter_lines():
                if not line.startswith("event: "):
                    continue
                kind, events = line.removeprefix("event: "), events + 1
                if kind in TERMINALS:
                    sent.terminal = kind
                decision = self.chance.choice(("approve", "approve", "deny", "")) if kind == "permission.requested" else None
                if decision:
                    await self._decide(talk, decision)
                elif decision == "" or events == cancelled_at:
                    await self._call("POST", f"{runs}/cancel", answers=(202,))

    async def _decide(self, talk: Talk, decision: str) -> None:
        waiting = await self._call("GET", f"/api/agents/{talk.agent}/permissions", answers=(200,))
        for one in waiting.json().get("items", []):
            await self._call("POST", f"/api/agents/{talk.agent}/permissions/{one['permission_id']}", {"decision": decision}, answers=(200,))

    async def _converse(self) -> None:
        agent = self.chance.choice(sorted(self.agents - self.leaving))
        if len(self.talks) < MOST_CONVERSATIONS:
            self._add(agent, await self._call("POST", f"/api/agents/{agent}/sessions", {}, answers=(201,)))

    async def _branch(self) -> None:
        if (talk := self._talk()) and len(self.talks) < MOST_CONVERSATIONS:
            path = f"/api/agents/{talk.agent}/sessions/{talk.conversation}/continue"
            self._add(talk.agent, await self._call("POST", path, {"mode": "branch"}, answers=(201, 400)))

    def _add(self, agent: str, answer: httpx.Response) -> None:
        if answer.status_code == 201:
            conversation = answer.json()["conversation_id"]
            self.talks[conversation] = Talk(agent, conversation)

    async def _rename(self) -> None:
        if talk := self._talk():
            await self._call("PATCH", f"/api/agents/{talk.agent}/sessions/{talk.conversation}", {"title": "renamed"}, answers=(200,))

    async def _delete(self) -> None:
        if (talk := self._talk()) and len(self.talks) > 2:
            talk.leaving = True
            answer = await self._call("DELETE", f"/api/agents/{talk.agent}/sessions/{talk.conversation}", answers=(204,))
            talk.leaving = False
            if answer.status_code == 204:
                self.gone[talk.conversation] = self.talks.pop(talk.conversation).agent
                self.told["conversations deleted"] += 1

    async def _create_agent(self) -> None:
        if len(self.agents) < MOST_AGENTS:
            answer = await self._call("POST", "/api/agents", {"name": "One of many"}, answers=(201,))
            if answer.status_code == 201:
                self.agents.add(answer.json()["agent_id"])
                self.told["agents created"] += 1

    async def _delete_agent(self) -> None:
        for agent in self._others():
            self.leaving.add(agent)
            answer = await self._call("DELETE", f"/api/agents/{agent}", answers=(202,))
            if answer.status_code != 202:
                self.leaving.discard(agent)

    async def _upgrade_agent(self) -> None:
        for agent in self._others():
            await self._call("POST", f"/api/agents/{agent}/upgrade", answers=(202,))

    def _others(self) -> list[str]:
        others = sorted(self.agents - self.leaving - {SYSTEM_AGENT})
        return [self.chance.choice(others)] if others else []

    def _workspace(self, agent: str) -> Path:
        return self.gateway.root / "data/agents" / agent / "workspace"

    # what must hold ------------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        await self._check_agents()
        for talk in [*self.talks.values()]:
            await self._check_talk(talk)
        for conversation, agent in self.gone.items():
            if agent in self.agents:
                assert (await self.gateway.call("GET", f"/api/agents/{agent}/sessions/{conversation}")).status_code == 404
        await self._check_leftovers()
        await self._send_again()

    async def _check_agents(self) -> None:
        rows = {row["agent_id"]: row for row in (await self.gateway.ok("GET", "/api/agents"))["items"]}
        assert {row["phase"] for row in rows.values()} <= {"ready"}, rows
        assert self.agents - self.leaving <= set(rows), "an Agent is lost"
        for agent in self.leaving - set(rows):
            self.told["agents deleted"] += 1
            self.talks = {key: talk for key, talk in self.talks.items() if talk.agent != agent}
        self.agents, self.leaving = set(rows), set()
        for place in ("data/agents", ".runtime/agents"):
            assert {path.name for path in (self.gateway.root / place).iterdir()} == set(rows), f"{place} and the registry differ"
        for agent, row in rows.items():
            environments = self.gateway.root / ".runtime/agents" / agent / "worker-env"
            assert [path.name for path in environments.iterdir()] == [str(row["generation"])]
            await self._adopt(agent)

    async def _adopt(self, agent: str) -> None:
        """Conversations whose making or deletion was not answered are what they are now."""
        there = {row["conversation_id"]: row for row in (await self.gateway.ok("GET", f"/api/agents/{agent}/sessions"))["items"]}
        assert all("running_run_id" not in row for row in there.values()), "something of a dead process is shown as running"
        for conversation in there:
            assert conversation not in self.gone, "a deleted Conversation is back"
            self.talks.setdefault(conversation, Talk(agent, conversation))
        for talk in [talk for talk in self.talks.values() if talk.agent == agent and talk.conversation not in there]:
            assert talk.leaving, "a Conversation is lost"
            self.gone[talk.conversation] = self.talks.pop(talk.conversation).agent

    async def _check_talk(self, talk: Talk) -> None:
        talk.leaving = False
        turns: dict[str, Json] = {}
        cursor = ""
        while True:
            page = await self.gateway.ok("GET", f"/api/agents/{talk.agent}/sessions/{talk.conversation}{cursor}")
            for turn in page["turns"]:
                assert turn["user_text"] not in turns, "a Turn is there twice"
                turns[turn["user_text"]] = turn
            if "next_before_cursor" not in page["page"]:
                break
            cursor = f"?before={page['page']['next_before_cursor']}"
        for turn in turns.values():
            assert turn["state"] in ("completed", "failed", "cancelled", "interrupted"), turn
            if turn["state"] == "completed":
                assert turn["assistant_text"] == f"answer to {turn['user_text']}"
        for sent in talk.sent:
            turn = turns.get(sent.message)
            assert turn is not None or sent.run_id is None, "an accepted Turn is lost"
            if turn is not None:
                await self._check_turn(talk, sent, turn)

    async def _check_turn(self, talk: Talk, sent: Sent, turn: Json) -> None:
        assert sent.run_id in (None, turn["run_id"])
        assert sent.terminal in (None, f"run.{turn['state']}"), "a Run has another end than was told"
        if sent.file is not None:
            assert sent.file.read_text() in (OLD, NEW)
        replay = await self.gateway.call("GET", f"/api/agents/{talk.agent}/runs/{turn['run_id']}/replay?limit=200")
        types = [event["type"] for event in replay.json()["items"]]
        assert [kind for kind in types if kind in TERMINALS] == [f"run.{turn['state']}"] == types[-1:], types
        for begin, end in PAIRS:
            assert types.count(begin) == types.count(end), types
        self.told[f"turns checked, {turn['state']}"] += 1

    async def _check_leftovers(self) -> None:
        assert self.gateway.worker_pids() == []
        assert list(self.gateway.root.glob(".runtime/agents/*/runs/*")) == []
        for agent in self.agents:
            known = {"agent-builder.md", *(path.name for path in self._workspace(agent).glob("*-*-*-*-*.md"))}
            assert {path.name for path in self._workspace(agent).iterdir()} == known
            with sqlite3.connect(f"file:{self.gateway.root / 'data/agents' / agent / 'state.sqlite'}?mode=ro", uri=True) as state:
                for table, question in ORPHANS.items():
                    assert state.execute(question).fetchall() == [], f"{table} of {agent}"
            state.close()

    async def _send_again(self) -> None:
        """A sender that was not answered asks again under the same id; one of those that ended is left to be sure of the bound."""
        for talk in self.talks.values():
            for sent in [one for one in talk.sent if one.run_id is None]:
                answer = await self._call(
                    "POST", f"/api/agents/{talk.agent}/sessions/{talk.conversation}/runs",
                    {"message": sent.message, "client_request_id": sent.request_id}, answers=(202,),
                )
                if answer.status_code == 202:
                    sent.run_id = answer.json()["run_id"]
                    await self._follow(talk, sent)
                    self.told["sent again"] += 1
            talk.sent = talk.sent[-8:]


ORPHANS = {
    "turns that never end": "SELECT turn_id FROM turns WHERE state IN ('preparing', 'running')",
    "turns of no Conversation": "SELECT turn_id FROM turns WHERE key NOT IN (SELECT turn FROM conversation_turns)",
    "places of no Turn": "SELECT * FROM conversation_turns WHERE turn NOT IN (SELECT key FROM turns)",
    "bundles of no Turn": "SELECT turn FROM bundles WHERE turn NOT IN (SELECT key FROM turns WHERE state = 'completed')",
    "journals of no Turn": "SELECT run_id FROM journal_runs WHERE run_id NOT IN (SELECT run_id FROM turns)",
    "events of no Run": "SELECT seq FROM events WHERE run NOT IN (SELECT key FROM journal_runs)",
}
