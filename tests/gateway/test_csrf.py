import ipaddress
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.gateway.csrf import HostGate, host_allowed, require_same_origin
from agent_builder.protocol.errors import ForbiddenHost, ForbiddenOrigin

NAMES = frozenset({"localhost", "workstation", "agents.lan", "other.example"})


@pytest.mark.parametrize("host", [
    "127.0.0.1:20815", "127.0.0.1", "0.0.0.0:20815", "192.168.1.20:1", "[::1]:20815", "[::1]", "[fe80::1]:65535", "[::ffff:127.0.0.1]:80",
    "localhost:20815", "LOCALHOST", "workstation:20815", "agents.lan", "other.example:9",
])
def test_literals_and_known_names_are_allowed_with_any_port(host: str) -> None:
    assert host_allowed(host, NAMES)


@pytest.mark.parametrize("host", [
    "", ":20815", "evil.example:20815", "evil.example", "localhost.", "localhost.evil.example", "agents.lan.evil.example", "xlocalhost",
    "127.0.0.1.evil.example", "127.1", "2130706433", "0x7f000001", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:", "127.0.0.1:x", "::1",
    "[::1", "::1]", "[evil.example]", "[127.0.0.1]", "[fe80::1%eth0]", "user@localhost", "localhost:20815@evil.example", "localhost/",
    "localhost #", " localhost", "localhost ", "localhost\t", "local\x00host", "１２７.0.0.1", "127.0.0.1:２０８１５", "localhost,evil.example",
    "a" * 300, "localhost:020815x",
])
def test_everything_else_is_refused(host: str) -> None:
    assert not host_allowed(host, NAMES)


@given(st.ip_addresses(), st.none() | st.integers(1, 65535))
def test_every_address_literal_is_allowed(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int | None) -> None:
    text = f"[{address}]" if address.version == 6 else str(address)
    if "%" not in text:
        assert host_allowed(text if port is None else f"{text}:{port}", frozenset())


@given(st.text(max_size=40) | st.text(string.ascii_letters + string.digits + ".-:[]@%/", max_size=40))
def test_no_text_passes_that_is_neither_a_known_name_nor_a_literal(text: str) -> None:
    if host_allowed(text, NAMES):
        name, _, port = text.rpartition(":") if not text.endswith("]") and ":" in text else (text, "", "")
        name = name or text
        if port:
            assert port.isascii()
            assert 0 < int(port) < 65536
        if name.lower() not in NAMES:
            ipaddress.ip_address(name.strip("[]"))


def scope(host: str | list[str] = "box.lan:20815", origins: tuple[str, ...] = ("http://box.lan:20815",)) -> dict[str, object]:
    hosts = [host] if isinstance(host, str) else host
    headers = [(b"host", one.encode("latin-1")) for one in hosts] + [(b"origin", one.encode("latin-1")) for one in origins]
    return {"type": "http", "scheme": "http", "path": "/api/agents", "headers": headers}


def test_the_exact_origin_passes() -> None:
    require_same_origin(scope())
    require_same_origin(scope("[::1]:20815", ("http://[::1]:20815",)))


@pytest.mark.parametrize("origins", [
    (), ("null",), ("",), ("http://127.0.0.1:20815",), ("http://box.lan:20816",), ("http://box.lan",), ("https://box.lan:20815",),
    ("http://BOX.lan:20815",), ("HTTP://box.lan:20815",), ("http://box.lan.:20815",), ("http://box.lan:20815.evil.example",),
    ("http://box.lan:20815/",), ("http://box.lan:20815 ",), ("http://box.lan:20815", "http://box.lan:20815"),
    ("http://box.lan:20815, http://evil.example",), ("file://",),
])
def test_any_other_origin_is_refused(origins: tuple[str, ...]) -> None:
    with pytest.raises(ForbiddenOrigin):
        require_same_origin(scope(origins=origins))


def test_an_origin_never_matches_two_hosts() -> None:
    with pytest.raises(ForbiddenOrigin):
        require_same_origin(scope(["box.lan:20815", "box.lan:20815"]))


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_no_other_text_is_the_same_origin(text: str) -> None:
    if text != "http://box.lan:20815":
        with pytest.raises(ForbiddenOrigin):
            require_same_origin(scope(origins=(text,)))


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"], ["evil.example"]])
@pytest.mark.parametrize("path", ["/", "/api/agents", "/js/main.js", "/healthy"])
async def test_the_gate_takes_exactly_one_known_host(hosts: list[str], path: str) -> None:
    reached = []

    async def app(scope: object, receive: object, send: object) -> None:
        reached.append(scope)

    gate = HostGate(app, NAMES)
    with pytest.raises(ForbiddenHost):
        await gate({**scope(hosts), "path": path}, None, None)  # type: ignore[arg-type]
    assert reached == []


async def test_health_is_told_that_the_host_is_foreign() -> None:
    seen = []

    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        seen.append(scope["foreign_host"])

    gate = HostGate(app, NAMES)  # type: ignore[arg-type]
    for host in ("evil.example", "localhost"):
        await gate({**scope(host), "path": "/health"}, None, None)  # type: ignore[arg-type]
    assert seen == [True, False]
