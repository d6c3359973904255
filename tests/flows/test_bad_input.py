"""What a person or a program may do wrong, in front of the real process: each has its code and one clear sentence, and leaves nothing."""

import asyncio
import socket
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from agent_builder.protocol.limits import BODY_BYTES, MESSAGE_BYTES
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.followed import begin, nothing_left
from tests.support.gateway import SYSTEM_AGENT, Gateway, catalog


async def refused(gateway: Gateway, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    """Status and code; the sentence is one, and tells no secret and no place."""
    response = await gateway.call(method, path, body, **headers)
    error = response.json()["error"]
    assert set(error) >= {"code", "message", "retryable"}
    assert error["message"] and "\n" not in error["message"]
    for secret in (str(gateway.root), "Traceback", "127.0.0.1", "qwen3.5"):
        assert secret not in response.text
    return response.status_code, error["code"]


class TestRequests:
    pytestmark = pytest.mark.asyncio(loop_scope="module")

    async def test_a_wrong_token_does_not_log_in(self, shared: Gateway) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{shared.port}", trust_env=False) as stranger:
            for token in ("0" * 64, "", "wrong", "ï" * 20):
                answer = await stranger.post("/api/login", json={"token": token}, headers={"Origin": str(stranger.base_url).rstrip("/")})
                assert (answer.status_code, answer.json()["error"]["code"]) in ((401, "unauthenticated"), (429, "login_throttled")), token
                assert "set-cookie" not in answer.headers
            assert (await stranger.get("/api/agents")).status_code == 401
        log = shared.log_text()
        assert (shared.root / ".runtime/secrets/web-bootstrap-token").read_text().strip() not in log

    async def test_a_change_without_its_token_or_from_elsewhere_is_refused(self, shared: Gateway) -> None:
        path, before = f"{shared.agent}/sessions", len((await shared.ok("GET", f"{shared.agent}/sessions"))["items"])
        assert await refused(shared, "POST", path, {}, X_CSRF_Token="") == (403, "csrf_failed")
        assert await refused(shared, "POST", path, {}, X_CSRF_Token="0" * 64) == (403, "csrf_failed")
        for origin in ("", "null", "https://evil.example", f"http://127.0.0.1:{shared.port + 1}", f"https://127.0.0.1:{shared.port}"):
            assert await refused(shared, "POST", path, {}, Origin=origin) == (403, "forbidden_origin"), origin
        assert await refused(shared, "GET", path, None, Host="evil.example") == (403, "forbidden_host")
        assert len((await shared.ok("GET", path))["items"]) == before

    async def test_a_body_of_seventy_kilobytes_is_too_large(self, shared: Gateway) -> None:
        conversation = await shared.new_conversation()
        body = {"message": "x" * (70 * 1024)}
        assert await refused(shared, "POST", f"{shared.agent}/sessions/{conversation}/runs", body) == (413, "too_large")
        assert await refused(shared, "POST", "/api/agents", {"name": "x" * BODY_BYTES}) == (413, "too_large")
        assert (await shared.page(conversation))["turns"] == []

    async def test_unknown_ids_are_not_found_whoever_they_belong_to(self, shared: Gateway) -> None:
        conversation, nobody = await shared.new_conversation(), str(uuid4())
        known = f"/api/agents/{SYSTEM_AGENT}"
        for method, path, body in (
            ("GET", f"/api/agents/{nobody}", None), ("GET", f"/api/agents/{nobody}/sessions", None), ("DELETE", f"/api/agents/{nobody}", None),
            ("GET", f"{known}/sessions/{nobody}", None), ("PATCH", f"{known}/sessions/{nobody}", {"title": "x"}), ("DELETE", f"{known}/sessions/{nobody}", None),
            ("POST", f"{known}/sessions/{nobody}/runs", {"message": "x"}), ("POST", f"{known}/sessions/{nobody}/continue", {"mode": "branch"}),
            ("GET", f"{known}/sessions/{nobody}/preparation", None), ("POST", f"{known}/sessions/{nobody}/commands", {"input": "/status"}),
            ("GET", f"{known}/runs/{nobody}/events", None), ("GET", f"{known}/runs/{nobody}/replay", None), ("GET", f"{known}/runs/{nobody}/context", None),
            ("GET", f"{known}/permissions/{nobody}", None), ("POST", f"{known}/permissions/{nobody}", {"decision": "deny"}),
            ("GET", f"{known}/sessions/{conversation.upper()}", None), ("GET", f"{known}/runs/{conversation}/events", None),
        ):
            assert await refused(shared, method, path, body) == (404, "not_found"), path

    async def test_a_message_must_say_something_within_its_bound_and_be_no_command(self, shared: Gateway, shared_fake: FakeOllama) -> None:
        conversation, before = await shared.new_conversation(), len(shared_fake.chats)
        path = f"{shared.agent}/sessions/{conversation}/runs"
        for message in ("", "x" * (MESSAGE_BYTES + 1), "中" * (MESSAGE_BYTES // 3 + 1), "a\x00b", "a\x1bb", "a\rb", "/status", "/no such command", 5, None, ["x"]):
            assert await refused(shared, "POST", path, {"message": message}) == (400, "invalid_request"), repr(message)[:40]
        for body in ({}, {"message": "x", "more": 1}, {"message": "x", "model_id": "unknown"}, {"message": "x", "client_request_id": "1"},
                     {"message": "x", "attachments": ["a"] * 5}, [], "x"):
            assert await refused(shared, "POST", path, body) == (400, "invalid_request"), body
        assert await refused(shared, "POST", path, {"message": "x", "attachments": ["none.txt"]}) == (409, "attachment_refused")
        assert (await shared.page(conversation))["turns"] == []
        assert len(shared_fake.chats) == before
        told = await shared.ok("POST", f"{shared.agent}/sessions/{conversation}/commands", {"input": "/statsu"})
        assert "/status" in told["output"]
        assert (told["model_invoked"], told["turn_created"]) == (False, False)

    async def test_a_second_message_while_one_is_answered_is_refused_and_not_kept(self, shared: Gateway, shared_fake: FakeOllama) -> None:
        gate = Gate()
        shared_fake.script(gated(gate, text("end"), before=begun("begin")))
        run = await begin(shared)
        await run.until("assistant.block.delta")
        path = f"{shared.agent}/sessions/{run.conversation}/runs"
        assert await refused(shared, "POST", path, {"message": "impatient"}) == (409, "conversation_busy")
        gate.open()
        await run.end()
        assert [turn["user_text"] for turn in (await shared.page(run.conversation))["turns"]] == ["hello"]
        await nothing_left(shared)


# a start that cannot be ---------------------------------------------------------------------------------------------------------


async def not_started(gateway: Gateway, *wanted: str) -> None:
    """It ends with exit status 1 and one line on stderr that holds what is wanted; nothing is left but files of its own."""
    with pytest.raises(RuntimeError) as refusal:
        await gateway.start()
    (line,) = gateway.log_text().strip().splitlines()
    assert line == str(refusal.value)
    assert line.startswith("agent-builder: ")
    for part in wanted:
        assert part in line, line
    assert gateway.worker_pids() == []
    await gateway.client.aclose()


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def test_a_model_server_that_is_not_there_is_named_with_the_way_out(tmp_path: Path) -> None:
    port = closed_port()
    await not_started(Gateway(tmp_path, port), f"http://127.0.0.1:{port}", "qwen3.5:2b", "cannot be reached", "--local-model")


async def test_a_model_without_the_capability_is_named(tmp_path: Path) -> None:
    with FakeOllama(capabilities=("completion",)) as fake:
        await not_started(Gateway(tmp_path, fake.port), "qwen3.5:2b", "lacks", "config/models.toml")


async def test_a_model_that_the_server_does_not_have_is_named(tmp_path: Path, fake: FakeOllama) -> None:
    text_of = catalog(fake.port, model="nobody:1b")
    await not_started(Gateway(tmp_path, fake.port, catalog_text=text_of), "nobody:1b", "does not have this model")


@pytest.mark.parametrize(("old", "new", "line", "word"), [
    ('label = "Test"', 'label = "Test', 4, ""), ("think = false", "thinks = false", 7, "thinks"), ("think = false", "think = 1", 7, "think"),
    ('default = "test"', 'default = "none"', 1, "enabled"), ("[[models]]", "[[models]]\nstreams = 9", 3, "streams"),
])
async def test_a_corrupt_catalog_is_told_with_its_line(tmp_path: Path, fake: FakeOllama, old: str, new: str, line: int, word: str) -> None:
    gateway = Gateway(tmp_path, fake.port, catalog_text=catalog(fake.port).replace(old, new))
    await not_started(gateway, "models.toml", f"line {line}", word)


async def test_a_port_that_is_in_use_is_named_and_its_user_left_alone(tmp_path: Path, fake: FakeOllama) -> None:
    gateway = Gateway(tmp_path, fake.port)
    served = asyncio.Event()

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set()
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", gateway.port)
    async with server:
        await not_started(gateway, str(gateway.port), "in use", "AGENT_BUILDER_PORT")
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        await served.wait()
        writer.close()


@pytest.mark.parametrize(("variable", "value"), [("AGENT_BUILDER_PORT", "70000"), ("AGENT_BUILDER_PORT", "port")])
async def test_a_wrong_setting_is_named(tmp_path: Path, fake: FakeOllama, variable: str, value: str) -> None:
    await not_started(Gateway(tmp_path, fake.port, **{variable: value}), variable, value)


async def test_a_kernel_that_cannot_confine_is_refused(tmp_path: Path, fake: FakeOllama) -> None:
    await not_started(Gateway(tmp_path, fake.port, LANDLOCK_ABI="3"), "Landlock ABI 3", "Linux 6.12")


async def test_a_token_file_that_is_no_token_is_refused_without_telling_it(tmp_path: Path, fake: FakeOllama) -> None:
    gateway = Gateway(tmp_path, fake.port)
    secret = gateway.root / ".runtime/secrets/web-bootstrap-token"
    secret.parent.mkdir(parents=True, mode=0o700)
    secret.write_text("two lines\nof a token\n")
    secret.chmod(0o600)
    await not_started(gateway, "token")
    assert "of a token" not in gateway.log_text()
