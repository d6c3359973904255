"""Small tasks for the model behind a running Agent Builder, end to end through its API with a client that approves everything.

    ./start.sh --local-model && ./.venv/bin/python scripts/model_tasks.py [--model MODEL_ID] [--only 3,7]

Makes an Agent of its own, gives each task a fresh workspace of twelve files and a fresh Conversation, attaches the files that a
message names (as the page does), and prints what was finished, what was changed and how long it took. Deletes the Agent at the end.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
TERMINALS = {"run.completed", "run.failed", "run.cancelled", "run.interrupted"}
FILES = {
    "notes.md": "# Meeting\n\nThe meeting is on Tusday.\nBring the blue folder.\n",
    "todo.txt": "[ ] buy milk\n[ ] call Anna\n[x] pay rent\n",
    "config.ini": "[server]\nhost = localhost\nport = 8080\ndebug = false\n",
    "prices.csv": "item,price\napples,3.20\nbread,2.75\ncheese,7.90\n",
    "sum.py": "def total(n):\n    # the sum of the numbers up to n\n    return sum(range(n))\n",
    "README.md": "# Garden helper\n\nA small program that plans the garden.\n",
    "team.txt": "Lead: Dana\nDesign: Oskar\nTesting: Mei\n",
    "log.txt": "09:00 start\n09:05 warning disk at 81 percent\n09:07 error E42 printer not found\n09:30 stop\n",
    "recipe.md": "# Pancakes\n\n- 250 g flour\n- 2 eggs\n- 400 ml milk\n\nReady in 25 minutes.\n",
    "poem.txt": "Over the quiet water\na heron waits for dawn.\n",
    "data.json": '{\n  "name": "sensor-7",\n  "limit": 250,\n  "unit": "ms"\n}\n',
    "greet.py": 'def greet(name):\n    return "Hello, " + name\n',
}


@dataclass(frozen=True)
class Task:
    """`answer`: words of which each must stand in the answer (lower case; `a|b` is a choice). `changes`: the files as they
    must be afterwards, None for any text that holds the words in `holds`."""

    message: str
    answer: tuple[str, ...] = ()
    changes: dict[str, Callable[[str], bool]] = field(default_factory=dict)


def becomes(old_name: str, old: str, new: str) -> dict[str, Callable[[str], bool]]:
    wanted = FILES[old_name].replace(old, new)
    return {old_name: lambda text: text == wanted}


def holds(name: str, *words: str) -> dict[str, Callable[[str], bool]]:
    return {name: lambda text: all(word in text.lower() for word in words)}


TASKS = (
    Task("What is the port in config.ini?", ("8080",)),
    Task("What do apples cost according to prices.csv?", ("3.2",)),
    Task("Who is the lead in team.txt?", ("dana",)),
    Task("Which file contains the word heron?", ("poem.txt",)),
    Task("Which error code is in log.txt?", ("e42",)),
    Task("In notes.md, fix the typo: change Tusday to Tuesday.", changes=becomes("notes.md", "Tusday", "Tuesday")),
    Task("Set the port in config.ini to 9090.", changes=becomes("config.ini", "8080", "9090")),
    Task("In team.txt, replace Dana by Maria.", changes=becomes("team.txt", "Dana", "Maria")),
    Task("Create a file hello.txt with the text: hello world", changes=holds("hello.txt", "hello world")),
    Task("Create a file shopping.txt with three lines: milk, bread, eggs.", changes=holds("shopping.txt", "milk", "bread", "eggs")),
    Task("What is 12 * 12?", ("144",)),
    Task("What is the capital of France?", ("paris",)),
    Task("Write one friendly sentence for a birthday card.", ("birthday|celebrat|wish|joy|happ",)),
    Task("What is the name of the function in sum.py?", ("total",)),
    Task("In greet.py, change Hello to Welcome.", changes=becomes("greet.py", "Hello", "Welcome")),
    Task("In todo.txt, mark 'buy milk' as done: change '[ ] buy milk' to '[x] buy milk'.", changes=becomes("todo.txt", "[ ] buy milk", "[x] buy milk")),
    Task("Which files in the workspace end with .md?", ("notes.md", "readme.md", "recipe.md")),
    Task("What is the unit in data.json?", ("ms|millisecond",)),
    Task("What is the limit in data.json?", ("250",)),
    Task("How many minutes do the pancakes in recipe.md take?", ("25",)),
)


class Client:
    """A logged-in client of a running Gateway."""

    def __init__(self, port: int) -> None:
        origin = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=origin, timeout=900, trust_env=False, headers={"Origin": origin})
        token = (ROOT / ".runtime/secrets/web-bootstrap-token").read_text().strip()
        self.http.headers["X-CSRF-Token"] = self.ok("POST", "/api/login", {"token": token})["csrf_token"]

    def ok(self, method: str, path: str, body: object = None) -> dict:
        response = self.http.request(method, path, json=body)
        if response.is_error:
            raise SystemExit(f"{method} {path}: {response.status_code} {response.text[:300]}")
        return response.json() if response.content else {}

    def events(self, agent: str, run_id: str):
        with self.http.stream("GET", f"/api/agents/{agent}/runs/{run_id}/events") as response:
            for line in response.iter_lines():
                if line.startswith("data: ") and "seq" in (event := json.loads(line[6:])):
                    yield event
                    if event["type"] in TERMINALS:
                        return


@dataclass
class Result:
    finished: bool
    seconds: float
    ending: str
    answer: str
    tools: list[str]
    changed: list[str]


def run_task(client: Client, agent: str, workspace: Path, task: Task, model: str | None) -> Result:
    fresh(workspace)
    conversation = client.ok("POST", f"/api/agents/{agent}/sessions", {})["conversation_id"]
    body = {"message": task.message, "attachments": [name for name in FILES if name in task.message][:4]}
    if model:
        body["model_id"] = model
    started = time.monotonic()
    run_id = client.ok("POST", f"/api/agents/{agent}/sessions/{conversation}/runs", body)["run_id"]
    answer, ending, tools = "", "", []
    for event in client.events(agent, run_id):
        payload = event["payload"]
        if event["type"] == "permission.requested":
            client.ok("POST", f"/api/agents/{agent}/permissions/{payload['permission_id']}", {"decision": "approve"})
        elif event["type"] == "tool.call.finished":
            tools.append(f"{payload['tool_id']}:{payload['outcome']}")
        elif event["type"] == "assistant.message":
            answer = payload["text"]
        ending = payload.get("code") or payload.get("reason") or event["type"]
    seconds = time.monotonic() - started
    client.ok("DELETE", f"/api/agents/{agent}/sessions/{conversation}")
    return judge(task, workspace, Result(False, seconds, ending, answer, tools, []))


def fresh(workspace: Path) -> None:
    for path in workspace.iterdir():
        if path.name != "agent-builder.md":
            path.unlink()
    for name, text in FILES.items():
        (workspace / name).write_text(text)
        (workspace / name).chmod(0o600)


def judge(task: Task, workspace: Path, result: Result) -> Result:
    now = {path.name: path.read_text() for path in workspace.iterdir() if path.name != "agent-builder.md"}
    result.changed = sorted(name for name in now | FILES if now.get(name) != FILES.get(name))
    words = all(any(choice in result.answer.lower() for choice in word.split("|")) for word in task.answer)
    files = all(name in now and holds(now[name]) for name, holds in task.changes.items())
    result.finished = words and files and set(result.changed) == set(task.changes)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    parser.add_argument("--only", help="numbers of tasks, separated by commas")
    parser.add_argument("--port", type=int, default=int(os.environ.get("AGENT_BUILDER_PORT", "20815")))
    asked = parser.parse_args()
    client = Client(asked.port)
    agent = client.ok("POST", "/api/agents", {"name": "Model tasks"})["agent_id"]
    workspace = ROOT / "data/agents" / agent / "workspace"
    wanted = [int(number) for number in asked.only.split(",")] if asked.only else range(1, len(TASKS) + 1)
    done = 0
    try:
        for number in wanted:
            result = run_task(client, agent, workspace, TASKS[number - 1], asked.model)
            done += result.finished
            mark = "done  " if result.finished else "FAILED"
            print(f"{number:2} {mark} {result.seconds:6.1f} s  {TASKS[number - 1].message}", flush=True)
            print(f"      {result.ending}; {', '.join(result.tools) or 'no tools'}; changed: {', '.join(result.changed) or 'nothing'}")
            if not result.finished:
                print(f"      answer: {result.answer[:200]!r}")
    finally:
        client.ok("DELETE", f"/api/agents/{agent}")
    print(f"{done} of {len(list(wanted))} finished")
    return 0


if __name__ == "__main__":
    sys.exit(main())
