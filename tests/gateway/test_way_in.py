"""Who gets in: Host, Origin, session, CSRF token, content type and size, at every operation that there is."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agent_builder.gateway.endpoint import Endpoint
from agent_builder.gateway.headers import CONTENT_SECURITY_POLICY
from agent_builder.gateway.routes.table import ENDPOINTS
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, new_id
from agent_builder.protocol.limits import BODY_BYTES, LOGIN_FREE_FAILURES, MESSAGE_BYTES, SESSIONS
from tests.gateway.gateway_app import AGENT, ORIGIN, TOKEN, OpenGateway, open_gateway

CHANGES = [endpoint for endpoint in ENDPOINTS if endpoint.changes]
GUARDED = [endpoint for endpoint in CHANGES if not endpoint.public]
READS = [endpoint for endpoint in ENDPOINTS if not endpoint.changes and not endpoint.public]


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def path_of(endpoint: Endpoint) -> str:
    ids = {"agent_id": SYSTEM_AGENT_ID, "conversation_id": new_id(), "run_id": new_id(), "permission_id": new_id(), "task_id": new_id(), "skill_id": new_id()}
    return endpoint.path.format(**ids)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[OpenGateway]:
    async with open_gateway(tmp_path) as opened:
        yield opened


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


WRONG_ORIGINS: list[list[tuple[bytes, bytes]]] = [
    [], *[[(b"Origin", wrong)] for wrong in (
        b"null", b"", b"http://10.0.0.5:20815", b"http://127.0.0.1:20816", b"http://127.0.0.1", b"https://127.0.0.1:20815",
        b"HTTP://127.0.0.1:20815", b"http://127.0.0.1.:20815", b"http://127.0.0.1:20815.evil.example", b"http://127.0.0.1:20815/",
    )], [(b"Origin", ORIGIN.encode()), (b"Origin", ORIGIN.encode())],
]


async def test_a_change_is_refused_from_every_other_origin(gateway: OpenGateway) -> None:
    for endpoint, wrong in itertools.product(CHANGES, WRONG_ORIGINS):
        headers = [*wrong, (b"X-CSRF-Token", gateway.csrf.encode()), (b"Content-Type", b"application/json")]
        answer = await gateway.client.request(endpoint.method, path_of(endpoint), headers=headers, content=b"{}")
        assert code(answer) == (403, "forbidden_origin"), (named(endpoint), wrong)


async def test_a_change_takes_this_sessions_token_in_its_one_header(gateway: OpenGateway) -> None:
    async with gateway.other_client() as other:
        foreign = (await other.post("/api/login", json={"token": TOKEN}, headers={"Origin": ORIGIN})).json()["csrf_token"]
    wrong_tokens: tuple[list[str], ...] = ([], [foreign], [""], [gateway.csrf + "x"], [gateway.csrf, gateway.csrf])
    for endpoint, tokens in itertools.product(GUARDED, wrong_tokens):
        headers = [("Origin", ORIGIN), *(("X-CSRF-Token", token) for token in tokens)]
        answer = await gateway.client.request(endpoint.method, path_of(endpoint), headers=headers, json={})
        assert code(answer) == (403, "csrf_failed"), (named(endpoint), tokens)
    for endpoint in GUARDED:
        path = f"{path_of(endpoint)}?csrf_token={gateway.csrf}"
        assert code(await gateway.client.request(endpoint.method, path, headers={"Origin": ORIGIN}, json={})) == (403, "csrf_failed")


async def test_without_a_session_there_is_nothing(gateway: OpenGateway) -> None:
    headers = {"Origin": ORIGIN, "X-CSRF-Token": gateway.csrf}
    async with gateway.other_client() as stranger:
        for endpoint in (*GUARDED, *READS):
            answer = await stranger.request(endpoint.method, path_of(endpoint), headers=headers)
            assert code(answer) == (401, "unauthenticated"), named(endpoint)


async def test_a_token_is_stale_after_the_next_login_of_the_same_browser(gateway: OpenGateway) -> None:
    old = gateway.csrf
    await gateway.login()
    assert code(await gateway.call("POST", "/api/agents", {"name": "x"}, X_CSRF_Token=old)) == (403, "csrf_failed")
    assert len((await gateway.ok("GET", "/api/agents"))["items"]) == 1


async def test_a_refused_change_changed_nothing_and_the_same_one_passes_when_it_is_right(gateway: OpenGateway) -> None:
    for headers in ({"Origin": ""}, {"X_CSRF_Token": ""}):
        assert (await gateway.call("POST", "/api/agents", {"name": "x"}, **headers)).status_code == 403
    assert len((await gateway.ok("GET", "/api/agents"))["items"]) == 1
    assert (await gateway.call("POST", "/api/agents", {"name": "x"})).status_code == 201


async def test_a_method_in_a_header_is_not_looked_at(gateway: OpenGateway) -> None:
    answer = await gateway.call("GET", AGENT, X_HTTP_Method_Override="DELETE", X_CSRF_Token="")
    assert answer.status_code == 200
    assert (await gateway.ok("GET", AGENT))["phase"] == "ready"


async def test_a_body_must_say_that_it_is_json(gateway: OpenGateway) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Origin": ORIGIN, "X-CSRF-Token": gateway.csrf, **({"Content-Type": kind} if kind else {})}
        answer = await gateway.client.post("/api/agents", content=b'{"name": "x"}', headers=headers)
        assert code(answer) == (400, "invalid_request"), kind
    assert len((await gateway.ok("GET", "/api/agents"))["items"]) == 1


async def test_other_methods_are_refused_in_the_same_shape_and_no_other_site_is_let_in(gateway: OpenGateway) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for endpoint in ENDPOINTS:
        known = {one.method for one in ENDPOINTS if one.path == endpoint.path}
        for method in {"OPTIONS", "PUT", "TRACE", "PATCH", "DELETE", "POST", "GET"} - known:
            answer = await gateway.client.request(method, path_of(endpoint), headers=headers)
            assert code(answer) == (405, "invalid_request")
            assert set(answer.headers["allow"].split(", ")) == known | ({"HEAD"} if "GET" in known else set())
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_head_answers_like_get_without_a_body_and_changes_nothing(gateway: OpenGateway) -> None:
    for path in ("/api/agents", "/health", "/api/openapi.json"):
        assert (await gateway.client.head(path)).status_code == 200


async def test_a_foreign_host_gets_no_data(gateway: OpenGateway) -> None:
    wrong = (["evil.example:20815"], [""], ["localhost."], ["127.0.0.1:20815", "127.0.0.1:20815"], ["localhost", "evil.example"], ["[::1"])
    paths = ("/", "/login", "/js/main.js", "/api/session", "/api/agents", f"{AGENT}/runs/{new_id()}/events", "/api/x")
    for hosts, path in itertools.product(wrong, paths):
        answer = await gateway.client.get(path, headers=[("Host", host) for host in hosts])
        assert code(answer) == (403, "forbidden_host"), (hosts, path)


async def test_literals_and_known_names_are_served(gateway: OpenGateway) -> None:
    for host in ("127.0.0.1:20815", "localhost", "[::1]:20815", "192.168.7.7:20815", "0.0.0.0:20815", "LocalHost:1"):
        assert (await gateway.client.get("/api/session", headers={"Host": host})).status_code == 200, host


async def test_health_tells_a_foreign_host_its_status_alone(gateway: OpenGateway) -> None:
    assert (await gateway.client.get("/health", headers={"Host": "evil.example"})).json() == {"status": "ready"}
    whole = (await gateway.client.get("/health")).json()
    assert whole["release"] == "0.2.0"
    assert whole["prototype"] is True
    assert whole["model"] == {"ready": True}


async def test_every_answer_carries_the_security_headers_and_the_interface_is_never_stored(gateway: OpenGateway) -> None:
    for path, status in (("/health", 200), ("/api/session", 200), ("/api/nothing", 404), ("/nothing.js", 404), (f"{AGENT}/sessions/x", 404)):
        answer = await gateway.client.get(path)
        assert answer.status_code == status
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert (answer.headers.get("cache-control") == "no-store") == (path.startswith(("/api", "/health")))


async def test_login_sets_a_cookie_for_this_host_alone_and_logout_ends_it(gateway: OpenGateway) -> None:
    async with gateway.other_client() as browser:
        assert (await browser.get("/api/session")).json() == {"authenticated": False}
        answer = await browser.post("/api/login", json={"token": f" {TOKEN}\n"}, headers={"Origin": ORIGIN})
        name, _, rest = answer.headers["set-cookie"].partition("=")
        assert (name, rest.partition("; ")[2]) == ("agent_builder_session", "HttpOnly; SameSite=Strict; Path=/")
        csrf = answer.json()["csrf_token"]
        assert (await browser.get("/api/session")).json() == {"authenticated": True, "csrf_token": csrf}
        ended = await browser.post("/api/logout", headers={"Origin": ORIGIN, "X-CSRF-Token": csrf})
        assert (ended.status_code, "Max-Age=0" in ended.headers["set-cookie"]) == (204, True)
        browser.cookies.set("agent_builder_session", rest.partition(";")[0])
        assert (await browser.get("/api/session")).json() == {"authenticated": False}


async def test_a_wrong_token_gets_one_generic_answer(gateway: OpenGateway, caplog: pytest.LogCaptureFixture) -> None:
    for token in ("", "x", TOKEN.upper(), TOKEN + "\u200b", "０" + TOKEN[1:], "x" * 60000):
        answer = await gateway.client.post("/api/login", json={"token": token}, headers={"Origin": ORIGIN})
        assert answer.json() == {"error": {"code": "unauthenticated", "message": "This access token is not right.", "retryable": False}}
        gateway.clock.advance(60)
    assert TOKEN.upper() not in caplog.text


async def test_guessing_is_throttled_by_socket_peer_while_the_owner_elsewhere_gets_in(gateway: OpenGateway) -> None:
    answers = []
    async with gateway.other_client("10.0.0.9") as guesser, gateway.other_client("192.168.0.2") as owner:
        for number in range(50):
            headers = {"Origin": ORIGIN, "X-Forwarded-For": f"10.1.1.{number}", "Forwarded": f"for=10.1.1.{number}"}
            answers.append(await guesser.post("/api/login", json={"token": f"guess {number}"}, headers=headers))
        assert [one.status_code for one in answers[: LOGIN_FREE_FAILURES + 1]] == [401] * (LOGIN_FREE_FAILURES + 1)
        assert {one.status_code for one in answers[LOGIN_FREE_FAILURES + 1 :]} == {429}
        assert (answers[-1].headers["retry-after"], answers[-1].json()["error"]["retryable"]) == ("1", True)
        right = {"json": {"token": TOKEN}, "headers": {"Origin": ORIGIN}}
        assert code(await guesser.post("/api/login", **right)) == (429, "login_throttled")
        assert (await owner.post("/api/login", **right)).status_code == 200
        gateway.clock.advance(1)
        assert (await guesser.post("/api/login", **right)).status_code == 200
    assert (await gateway.ok("GET", "/api/session"))["authenticated"]


async def test_the_login_over_the_limit_ends_the_longest_idle_session(gateway: OpenGateway) -> None:
    for _ in range(SESSIONS - 1):
        async with gateway.other_client() as browser:
            assert (await browser.post("/api/login", json={"token": TOKEN}, headers={"Origin": ORIGIN})).status_code == 200
    async with gateway.other_client() as last:
        await last.post("/api/login", json={"token": TOKEN}, headers={"Origin": ORIGIN})
        assert (await last.get("/api/agents")).status_code == 200
    assert (await gateway.client.get("/api/agents")).status_code == 401


async def test_a_login_that_is_no_login_is_refused_and_is_no_guess(gateway: OpenGateway) -> None:
    headers = {"Origin": ORIGIN, "Content-Type": "application/json"}
    for body in (b"", b"[]", b"{", b"null", b'"x"', b"{}", b'{"token": 1}', b'{"token": null}', b'{"token": "x", "y": 1}', b"\xff",
                 b'{"token": "\\ud800"}', b"[" * 5000):
        assert code(await gateway.client.post("/api/login", content=body, headers=headers)) == (400, "invalid_request"), body[:40]
    await gateway.login()


async def test_a_body_over_the_bound_is_refused_whether_announced_or_in_parts(gateway: OpenGateway) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(BODY_BYTES // 1024 + 1):
            yield b" " * 1024

    headers = {"Origin": ORIGIN, "X-CSRF-Token": gateway.csrf, "Content-Type": "application/json"}
    for content in (b" " * (BODY_BYTES + 1), parts()):
        assert code(await gateway.client.post("/api/agents", content=content, headers=headers)) == (413, "too_large")
    just = b'{"name": "x"}'.ljust(BODY_BYTES)
    assert (await gateway.client.post("/api/agents", content=just, headers=headers)).status_code == 201


WRONG_FIELDS: list[tuple[object, str]] = [
    ({}, "message"), ({"message": ""}, "message"), ({"message": "x" * (MESSAGE_BYTES + 1)}, "message"), ({"message": 1}, "message"),
    ({"message": "é" * (MESSAGE_BYTES // 2 + 1)}, "message"), ({"message": "a\x00b"}, "message"), ({"message": "a\rb"}, "message"),
    ({"message": "a\x85b"}, "message"), ({"message": "x", "surprise": 1}, "surprise"), ({"message": "x", "compact": "yes"}, "compact"),
    ({"message": "x", "attachments": ["a"] * 5}, "attachments"), ({"message": "x", "attachments": [""]}, "attachments.0"),
    ({"message": "x", "client_request_id": "1"}, "client_request_id"), ({"message": "x", "model_id": ""}, "model_id"),
    ({"message": "x", "client_request_id": new_id().upper()}, "client_request_id"),
]


async def test_a_wrong_field_is_named(gateway: OpenGateway) -> None:
    for body, field in WRONG_FIELDS:
        answer = await gateway.call("POST", f"{AGENT}/sessions/{new_id()}/runs", body)
        assert code(answer) == (400, "invalid_request")
        assert answer.json()["error"]["details"]["field"] == field


async def test_a_message_of_the_full_size_is_read(gateway: OpenGateway) -> None:
    for message in ("x" * MESSAGE_BYTES, "é" * (MESSAGE_BYTES // 2), "a\n\tb"):
        assert code(await gateway.call("POST", f"{AGENT}/sessions/{new_id()}/runs", {"message": message})) == (404, "not_found")


async def test_a_query_that_is_not_expected_is_refused(gateway: OpenGateway) -> None:
    for query in ("x=1", "after_seq=1&after_seq=2", "after_seq=x", "after_seq=-1", "limit=0", "limit=201", "limit=1_0", "limit=", "limit=%E4%B8",
                  "&", "limit=1.0", "after_seq=+1", "limit"):
        answer = await gateway.call("GET", f"{AGENT}/runs/{new_id()}/replay?{query}")
        assert code(answer) == (400, "invalid_request"), query


async def test_an_id_that_is_none_is_not_found(gateway: OpenGateway) -> None:
    for wrong in ("x", "%00", new_id().upper(), "%2e%2e", "1" * 36, new_id() + "0", "{}"):
        for path in (f"/api/agents/{wrong}", f"{AGENT}/sessions/{wrong}", f"{AGENT}/runs/{wrong}/events"):
            assert (await gateway.call("GET", path)).status_code == 404, path


async def test_an_unknown_address_is_not_found_in_the_same_shape(gateway: OpenGateway) -> None:
    for path in ("/api", "/api/", "/api/nothing", "/api/agents/", "/api/extensions", "/health/"):
        assert code(await gateway.client.get(path)) == (404, "not_found"), path
