"""Skills through a real Gateway: installed over HTTP, used by a model, removed, and killed in between."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from agent_builder.protocol.limits import BODY_BYTES, SKILL_ARCHIVE_BYTES
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import SYSTEM_AGENT, Gateway, Json
from tests.support.skills import archive, packed, skill_md
from tests.support.tool_turns import Turns, outcomes

pytestmark = pytest.mark.asyncio(loop_scope="module")
ZIP = "application/zip"


@pytest_asyncio.fixture(loop_scope="module")
async def turns(shared: Gateway, shared_fake: FakeOllama) -> AsyncIterator[Turns]:
    yield await Turns.begin(shared, shared_fake)
    for skill in await installed(shared):
        await shared.ok("DELETE", f"{shared.agent}/skills/{skill['skill_id']}")


async def upload(gateway: Gateway, data: bytes, agent: str = SYSTEM_AGENT, **headers: str) -> httpx.Response:
    sent = {"Origin": f"http://127.0.0.1:{gateway.port}", "X-CSRF-Token": gateway.csrf, "Content-Type": ZIP}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    return await gateway.client.post(f"/api/agents/{agent}/skills", content=data, headers={name: value for name, value in sent.items() if value})


async def install(gateway: Gateway, data: bytes) -> Json:
    response = await upload(gateway, data)
    assert response.status_code == 201, response.text
    return dict(response.json())


async def installed(gateway: Gateway) -> list[Json]:
    return list((await gateway.ok("GET", f"{gateway.agent}/skills"))["items"])


def tools_of(chat: Json) -> list[str]:
    return [tool["function"]["name"] for tool in chat["tools"]]


async def test_a_skill_is_installed_listed_switched_and_removed(turns: Turns) -> None:
    gateway = turns.gateway
    made = await install(gateway, archive())
    assert {key: made[key] for key in ("name", "version", "description", "active", "entries", "scripts")} == {
        "name": "greet", "version": "1.0.0", "description": "Greets people by name.", "active": True, "entries": 2, "scripts": ["hello.py"],
    }
    assert await installed(gateway) == [made]
    assert await install(gateway, archive()) == made
    newer = await install(gateway, archive(version="2.0.0"))
    assert [(one["version"], one["active"]) for one in await installed(gateway)] == [("2.0.0", True), ("1.0.0", False)]
    path = f"{gateway.agent}/skills/{made['skill_id']}"
    assert (await gateway.ok("PATCH", path, {"active": True}))["active"]
    assert [(one["version"], one["active"]) for one in await installed(gateway)] == [("2.0.0", False), ("1.0.0", True)]
    assert (await gateway.call("DELETE", path)).status_code == 204
    for answer in (await gateway.call("DELETE", path), await gateway.call("PATCH", path, {"active": True})):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert [one["skill_id"] for one in await installed(gateway)] == [newer["skill_id"]]


async def test_an_upload_needs_session_origin_token_and_type(turns: Turns) -> None:
    gateway = turns.gateway
    tries = [
        ({"X_CSRF_Token": ""}, 403, "csrf_failed"), ({"Origin": "http://evil.example"}, 403, "forbidden_origin"), ({"Cookie": "x=y"}, 401, "unauthenticated"),
        ({"Content_Type": "application/json"}, 400, "invalid_request"), ({"Content_Type": "multipart/form-data; boundary=x"}, 400, "invalid_request"),
        ({"Content_Type": ""}, 400, "invalid_request"), ({"Content_Type": "text/plain"}, 400, "invalid_request"),
    ]
    for headers, status, code in tries:
        answer = await upload(gateway, archive(), **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), headers
    assert (await upload(gateway, archive(), "00000000-0000-4000-8000-0000000000ff")).status_code == 404
    assert await installed(gateway) == []


async def test_two_mebibytes_are_read_and_one_byte_more_is_not(turns: Turns) -> None:
    answer = await upload(turns.gateway, b"PK" + bytes(SKILL_ARCHIVE_BYTES - 2))
    assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (400, "damaged")
    too_large = await upload(turns.gateway, b"PK" + bytes(SKILL_ARCHIVE_BYTES - 1))
    assert (too_large.status_code, too_large.json()["error"]) == (
        413, {"code": "too_large", "message": "The request is too large.", "retryable": False, "details": {"limit_bytes": SKILL_ARCHIVE_BYTES}},
    )
    other = await turns.gateway.call("POST", "/api/agents", {"name": "x" * BODY_BYTES})
    assert other.status_code == 413


async def test_a_refused_archive_says_why_and_leaves_nothing(turns: Turns) -> None:
    answer = await upload(turns.gateway, packed({"greet/SKILL.md": skill_md(), "greet/../../evil": "x"}))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["details"]) == (400, "invalid_request", {"reason": "name", "entry": "greet/../../evil"})
    await install(turns.gateway, archive())
    again = await upload(turns.gateway, archive(body="Other.\n"))
    assert (again.status_code, again.json()["error"]["details"]["reason"]) == (400, "version_exists")
    assert not list(turns.gateway.root.rglob("evil"))


async def test_the_tool_is_offered_only_where_a_skill_is_active(turns: Turns) -> None:
    await turns.run(text("Well."))
    made = await install(turns.gateway, archive())
    await turns.run(text("Well."))
    await turns.gateway.ok("PATCH", f"{turns.gateway.agent}/skills/{made['skill_id']}", {"active": False})
    await turns.run(text("Well."))
    assert ["skill_run" in tools_of(chat) for chat in turns.chats] == [False, True, False]
    told = ["Skill greet: Greets people by name." in str(chat["messages"]) for chat in turns.chats]
    assert told == [False, True, False]
    system = [str(chat["messages"][0]["content"]) for chat in turns.chats]
    assert system[0] == system[2]


async def test_the_model_is_given_instructions_and_runs_a_script_with_input(turns: Turns) -> None:
    await install(turns.gateway, archive())
    run = await turns.run(
        call("skill_run", skill="greet"), call("skill_run", skill="greet", script="hello.py", input="Ada"), text("Done."), decide="approve"
    )
    assert (run.text, outcomes(run)) == ("Done.", [("ok", None), ("ok", None)])
    assert "Run scripts/hello.py with a name as input." in turns.results[0]
    assert turns.results[1] == "exit code 0\nHello, Ada\n"
    (first, second) = run.of("permission.requested")
    assert (first["preview"].split("\n")[0], second["preview"].split("\n")[0]) == ("greet 1.0.0", "greet 1.0.0 · hello.py")
    assert "Hello" not in str(run.of("tool.call.finished"))


async def test_what_was_denied_is_not_given(turns: Turns) -> None:
    await install(turns.gateway, archive())
    run = await turns.run(call("skill_run", skill="greet"), text("As you like."), decide="deny")
    assert outcomes(run) == [("denied", "denied")]
    assert "Run scripts/hello.py" not in str(turns.chats)


async def test_a_script_that_tries_to_reach_out_gets_nothing(turns: Turns) -> None:
    source = (
        "import os, ctypes\ndef tried(what, work):\n    try:\n        print(what, 'got', work())\n    except Exception as e:\n        print(what, 'refused')\n"
        f"tried('fork', os.fork)\ntried('read', lambda: open({str(turns.gateway.root / '.runtime/secrets/web-bootstrap-token')!r}).read())\n"
        f"tried('workspace', lambda: os.listdir({str(turns.gateway.workspace)!r}))\ntried('write', lambda: open('x', 'w'))\n"
        "print('socket', ctypes.CDLL(None).socket(2, 1, 0))\n"
    )
    await install(turns.gateway, archive({"s.py": source}))
    await turns.run(call("skill_run", skill="greet", script="s.py"), text("Nothing."), decide="approve")
    assert turns.results == ["exit code 0\nfork refused\nread refused\nworkspace refused\nwrite refused\nsocket -1\n"]


async def test_an_endless_script_ends_with_its_time_and_the_run_goes_on(turns: Turns) -> None:
    await install(turns.gateway, archive({"s.py": "while True:\n    pass\n"}))

    async def let_time_pass(_: Json) -> None:
        await until_released(turns.gateway)
        await turns.gateway.advance(13)

    endless = call("skill_run", skill="greet", script="s.py")
    run = await turns.run(endless, text("It did not end."), decide="approve", at={"tool.call.started": let_time_pass})
    assert (run.text, outcomes(run)) == ("It did not end.", [("failed", "wall_clock")])


async def until_released(gateway: Gateway) -> None:
    """A confined process that is not released yet only waits: it is the script that uses processor time from then on."""
    before: int | None = None
    async with asyncio.timeout(20):
        while before is None or ticks(gateway) < before + 5:
            await asyncio.sleep(0.01)
            if before is None and any("Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text() for pid in gateway.processes_in(".command")):
                before = ticks(gateway)


def ticks(gateway: Gateway) -> int:
    return sum(map(cpu_ticks, gateway.processes_in(".command")))


def cpu_ticks(pid: int) -> int:
    """Hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_a_skill_that_is_removed_before_the_approval_is_not_used(turns: Turns) -> None:
    made = await install(turns.gateway, archive())

    async def remove_and_approve(event: Json) -> None:
        await turns.gateway.ok("DELETE", f"{turns.gateway.agent}/skills/{made['skill_id']}")
        answer = await turns.gateway.decide(event, "approve")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "permission_stale")

    asked = call("skill_run", skill="greet", script="hello.py")
    run = await turns.run(asked, text("It is gone."), at={"permission.requested": remove_and_approve})
    assert (run.text, outcomes(run)) == ("It is gone.", [("refused", "permission_stale")])


async def test_a_kill_at_either_side_of_a_commit_leaves_row_and_folder_in_agreement(turns: Turns) -> None:
    gateway = turns.gateway
    folder = gateway.root / "data/agents" / SYSTEM_AGENT / "skills"
    kept = await install(gateway, archive(name="kept"))
    for when, more in (("before", 0), ("after", 1)):
        await gateway.command(kill_at_commit=1, when=when)
        with pytest.raises(httpx.HTTPError):
            await upload(gateway, archive())
        await again(gateway)
        assert len(await installed(gateway)) == len(list(folder.iterdir())) == 1 + more
    victim = next(one for one in await installed(gateway) if one["skill_id"] != kept["skill_id"])
    for when, more in (("before", 1), ("after", 0)):
        await gateway.command(kill_at_commit=1, when=when)
        with pytest.raises(httpx.HTTPError):
            await gateway.call("DELETE", f"{gateway.agent}/skills/{victim['skill_id']}")
        await again(gateway)
        assert len(await installed(gateway)) == len(list(folder.iterdir())) == 1 + more


async def again(gateway: Gateway) -> None:
    await gateway.killed()
    await gateway.start()
    await gateway.login()


async def test_an_agent_keeps_its_skills_through_a_rebuild_and_takes_them_with_it(turns: Turns) -> None:
    gateway = turns.gateway
    agent = (await gateway.ok("POST", "/api/agents", {"name": "Skilled"}))["agent_id"]
    assert (await upload(gateway, archive(), agent)).status_code == 201
    assert await installed(gateway) == []
    assert (await gateway.call("POST", f"/api/agents/{agent}/upgrade")).status_code == 202
    await settled(gateway, agent)
    assert len((await gateway.ok("GET", f"/api/agents/{agent}/skills"))["items"]) == 1
    assert (await gateway.call("DELETE", f"/api/agents/{agent}")).status_code == 202
    await settled(gateway, agent)
    assert not (gateway.root / "data/agents" / agent).exists()


async def settled(gateway: Gateway, agent: str) -> None:
    async with asyncio.timeout(20):
        while (answer := await gateway.call("GET", f"/api/agents/{agent}")).status_code == 200 and answer.json()["phase"] != "ready":
            await asyncio.sleep(0.02)
