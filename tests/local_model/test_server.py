"""The embedded server under an impatient client, two clients at once, and callers that have no business there."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from agent_builder.local_model.bounds import REQUEST_BYTES
from tests.support.embedded_model import EmbeddedServer, embedded_server

pytestmark = pytest.mark.model
SECRET = "xyzzy-plugh"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with embedded_server(tmp_path_factory.mktemp("checkout"), "smollm2") as running:
        yield running


def chat(text: str, **more: Any) -> dict[str, Any]:
    options = {"num_ctx": 4096, "num_predict": 8, "temperature": 0, "seed": 0, **more}
    messages = [{"role": "user", "content": text}]
    return {"model": "smollm2:135m", "truncate": False, "shift": False, "options": options, "messages": messages}


def abandoned(server: EmbeddedServer) -> int:
    """How many requests ended because their client left."""
    return server.log.read_text().count("POST /api/chat 499 ")


def send(server: EmbeddedServer, body: dict[str, Any]) -> socket.socket:
    """Sends a request without waiting for the answer."""
    data = json.dumps(body).encode()
    head = f"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.key}\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def test_a_client_that_leaves_while_its_prompt_is_evaluated_ends_the_evaluation(server: EmbeddedServer) -> None:
    server.exchange("POST", "/api/chat", chat("hi"))
    before = abandoned(server)
    impatient = send(server, chat("word " * 4000))
    impatient.close()
    status, _, _ = server.exchange("POST", "/api/chat", chat("hi"))
    assert (status, abandoned(server)) == (200, before + 1)


def test_a_client_that_leaves_in_the_middle_of_an_answer_ends_it(server: EmbeddedServer) -> None:
    before = abandoned(server)
    connection, response = server.open("POST", "/api/chat", chat("Write a long story about a river.", num_predict=2000))
    assert response.readline()
    connection.close()
    response.close()
    status, _, _ = server.exchange("POST", "/api/chat", chat("hi"))
    assert (status, abandoned(server)) == (200, before + 1)


def test_a_waiting_client_that_leaves_loses_its_place(server: EmbeddedServer) -> None:
    before = abandoned(server)
    connection, response = server.open("POST", "/api/chat", chat("Write a long story about a river.", num_predict=300))
    response.readline()
    send(server, chat("hi")).close()
    response.read()
    connection.close()
    status, _, _ = server.exchange("POST", "/api/chat", chat("hi"))
    assert (status, abandoned(server)) == (200, before + 1)


def test_a_load_is_answered_while_an_answer_of_that_model_is_made(server: EmbeddedServer) -> None:
    connection, answer = server.open("POST", "/api/chat", chat("Write a long story about a river.", num_predict=2000))
    assert answer.readline()
    status, _, lines = server.exchange("POST", "/api/chat", {**chat(""), "messages": []})
    assert (status, json.loads(lines[0])["done_reason"]) == (200, "load")
    connection.close()
    answer.close()


def test_the_second_of_two_requests_is_answered_after_the_first(server: EmbeddedServer) -> None:
    connection, first = server.open("POST", "/api/chat", chat("Write a story about a river.", num_predict=100))
    first.readline()
    second = send(server, chat("hi"))
    *_, last_of_first = first.read().split(b"\n")[:-1]
    connection.close()
    with second.makefile("rb") as answer:
        while answer.readline().strip():
            pass
        answer.readline()
        first_of_second = answer.readline()
    second.close()
    assert json.loads(last_of_first)["created_at"] < json.loads(first_of_second)["created_at"]


def test_what_was_evaluated_before_is_not_evaluated_again(server: EmbeddedServer) -> None:
    story = "The river runs through many towns. " * 40
    counts = []
    for question in ("How many towns?", "Which river?"):
        _, _, lines = server.exchange("POST", "/api/chat", chat(story + question))
        counts.append(json.loads(lines[-1]))
    first, second = counts
    assert second["prompt_eval_count"] > 200
    assert second["prompt_eval_duration"] * 4 < first["prompt_eval_duration"]


def test_an_answer_without_streaming_is_one_object(server: EmbeddedServer) -> None:
    status, content_type, lines = server.exchange("POST", "/api/chat", {**chat("hi"), "stream": False})
    assert (status, content_type, len(lines)) == (200, "application/json; charset=utf-8", 1)
    answer = json.loads(lines[0])
    assert answer["message"]["content"]
    assert answer["done_reason"] == "length"


def test_without_the_key_nothing_is_told(server: EmbeddedServer) -> None:
    for key in ("", "Bearer ", "Bearer wrong", server.key, f"Bearer {server.key}x", "Bearer \xe9"):
        for method, path in (("GET", "/"), ("GET", "/api/tags"), ("POST", "/api/chat")):
            status, _, lines = server.exchange(method, path, None, {"Authorization": key})
            assert (status, lines) == (401, ['{"error":"unauthorized"}'])


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}, {"Host": "127.0.0.1"}])
def test_a_web_page_or_a_rebound_name_is_refused_even_with_the_key(server: EmbeddedServer, headers: dict[str, str]) -> None:
    assert server.exchange("GET", "/api/tags", None, headers)[0] == 403
    assert server.exchange("POST", "/api/chat", chat("hi"), headers)[0] == 403


@pytest.mark.parametrize("length", [str(REQUEST_BYTES + 1), "-1", "x"])
def test_a_body_of_unknown_or_excessive_length_is_refused(server: EmbeddedServer, length: str) -> None:
    status, _, _ = server.exchange("POST", "/api/chat", None, {"Content-Length": length})
    assert status == 400


def test_the_log_holds_no_text_of_a_message(server: EmbeddedServer) -> None:
    server.exchange("POST", "/api/chat", chat(f"The word is {SECRET}. Say it."))
    server.exchange("POST", "/api/chat", {**chat(SECRET), "model": SECRET})
    assert SECRET not in server.log.read_text()


def test_the_key_and_the_catalog_are_private(server: EmbeddedServer) -> None:
    for file in (server.catalog, server.catalog.with_name("key")):
        assert file.stat().st_mode & 0o777 == 0o600
