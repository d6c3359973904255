import asyncio

import pytest
from starlette.requests import ClientDisconnect

from agent_builder.gateway.request_body import read_body, require_json, require_type
from agent_builder.protocol.errors import InvalidRequest, TooLarge
from agent_builder.protocol.limits import BODY_BYTES, BODY_S, SKILL_ARCHIVE_BYTES
from tests.gateway.asgi_client import AsgiClient, settle
from tests.support.clock import MovableClock


async def read(client: AsgiClient, *headers: tuple[bytes, bytes]) -> bytes:
    return await read_body(client.scope("POST", headers=list(headers)), client.receive, MovableClock())


async def test_a_body_is_collected_from_its_parts() -> None:
    assert await read(AsgiClient([b"ab", b"", b"c"])) == b"abc"
    assert await read(AsgiClient()) == b""


async def test_the_largest_body_is_taken_and_one_byte_more_is_refused() -> None:
    assert len(await read(AsgiClient([b"x" * (BODY_BYTES - 1), b"x"]))) == BODY_BYTES
    with pytest.raises(TooLarge):
        await read(AsgiClient([b"x" * BODY_BYTES, b"x"]))


async def test_an_archive_may_be_larger_and_has_its_own_bound() -> None:
    for most in (BODY_BYTES + 1, SKILL_ARCHIVE_BYTES):
        client = AsgiClient([b"x" * most])
        assert len(await read_body(client.scope("POST"), client.receive, MovableClock(), SKILL_ARCHIVE_BYTES)) == most
    client = AsgiClient([b"x" * SKILL_ARCHIVE_BYTES, b"x"])
    with pytest.raises(TooLarge):
        await read_body(client.scope("POST"), client.receive, MovableClock(), SKILL_ARCHIVE_BYTES)


@pytest.mark.parametrize("kinds", [[], [b"application/json"], [b"application/zip; x=y"], [b"application/zip", b"application/zip"], [b"text/plain"]])
def test_an_archive_must_say_that_it_is_one(kinds: list[bytes]) -> None:
    require_type(AsgiClient().scope(headers=[(b"content-type", b"Application/ZIP")]), "application/zip")
    with pytest.raises(InvalidRequest):
        require_type(AsgiClient().scope(headers=[(b"content-type", kind) for kind in kinds]), "application/zip")


async def test_an_announced_size_is_refused_before_anything_is_read() -> None:
    client = AsgiClient([b"x"])
    with pytest.raises(TooLarge):
        await read(client, (b"content-length", str(BODY_BYTES + 1).encode()))
    assert client.read == 0
    assert await read(client, (b"content-length", str(BODY_BYTES).encode())) == b"x"


async def test_an_endless_body_is_refused_as_soon_as_it_is_too_large() -> None:
    client = AsgiClient([b"x" * 1024], endless=True)
    with pytest.raises(TooLarge):
        await read(client)
    assert client.read == BODY_BYTES // 1024 + 1


async def test_a_client_that_leaves_in_the_middle_is_no_request() -> None:
    client = AsgiClient()
    await client.receive()
    client.vanish()
    with pytest.raises(ClientDisconnect):
        await read(client)


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    client, clock = AsgiClient(), MovableClock()
    await client.receive()
    reading = asyncio.create_task(read_body(client.scope("POST"), client.receive, clock))
    await settle()
    clock.advance(BODY_S + 1)
    with pytest.raises(InvalidRequest):
        await reading


@pytest.mark.parametrize("kind", [b"application/json", b"application/json; charset=utf-8", b"Application/JSON;charset=UTF-8"])
def test_json_is_taken(kind: bytes) -> None:
    require_json(AsgiClient().scope(headers=[(b"content-type", kind)]))


@pytest.mark.parametrize("kinds", [
    [], [b"text/plain"], [b"application/x-www-form-urlencoded"], [b"multipart/form-data; boundary=x"], [b"application/json; charset=latin-1"],
    [b"application/jsonp"], [b""], [b"application/json", b"application/json"], [b"text/plain; application/json"],
])
def test_every_other_type_is_refused(kinds: list[bytes]) -> None:
    with pytest.raises(InvalidRequest):
        require_json(AsgiClient().scope(headers=[(b"content-type", kind) for kind in kinds]))
