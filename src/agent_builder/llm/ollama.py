"""The one client of Ollama's native interface: what is sent, and how its small answers are read."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_builder.llm.faults import status_fault
from agent_builder.llm.provider_http import ConnectionBroken, Connections, HttpExchange, parse_endpoint
from agent_builder.protocol.errors import (
    ModelProtocol,
    ModelTransport,
    ModelTransportTimeout,
    ModelUnavailable,
)
from agent_builder.protocol.limits import (
    CONNECT_S,
    KEY_BYTES,
    METADATA_S,
    PROVIDER_ERROR_BYTES,
    PROVIDER_INLINE_BYTES,
    PROVIDER_METADATA_BYTES,
    SUMMARY_OUTPUT_TOKENS,
)
from agent_builder.protocol.model_profile import ModelProfile, QualifiedModel, Sampling
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest

Json = dict[str, object]


Purpose = Literal["turn", "summary", "warm_up"]


def chat_body(model: QualifiedModel, rendered: RenderedRequest, purpose: Purpose = "turn") -> bytes:
    """The request of one model call. num_ctx never changes for a model: each change would make the server load it anew.
    Only a Turn's answer without tools may be varied; a summary has to be faithful, as a call has to be exact."""
    profile = model.profile
    body = _head(model)
    varied = purpose == "turn" and not rendered.tools
    most = {"turn": profile.output_cap, "summary": SUMMARY_OUTPUT_TOKENS, "warm_up": 1}[purpose]
    body["options"] = {
        "num_ctx": model.window, "num_predict": min(most, _room(model, rendered)),
        **_sampling(profile.plain_sampling if varied else profile.tool_sampling),
    }
    if profile.think is not None:
        body["think"] = profile.think
    body["messages"] = list(rendered.messages)
    if rendered.tools:
        body["tools"] = list(rendered.tools)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def load_body(model: QualifiedModel) -> bytes:
    """The request that only loads the model, with the window that every later call has too."""
    return json.dumps({**_head(model), "options": {"num_ctx": model.window}, "messages": []}, ensure_ascii=False).encode()


def _head(model: QualifiedModel) -> Json:
    profile = model.profile
    return {"model": profile.provider_model, "stream": True, "truncate": False, "shift": False, "keep_alive": profile.keep_alive}


def _room(model: QualifiedModel, rendered: RenderedRequest) -> int:
    """Tokens that the window has left for the answer; the output reserve at least."""
    return max(model.output_reserve, model.window - rendered.admission_tokens)


def _sampling(policy: Sampling) -> Json:
    chosen = {
        "temperature": policy.temperature, "seed": policy.seed, "top_p": policy.top_p, "top_k": policy.top_k,
        "presence_penalty": policy.presence_penalty,
    }
    return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that the server has in memory. `window`: tokens really allocated, None where the server does not tell."""

    digest: str
    window: int | None


class OllamaClient:
    """Every method raises ModelUnavailable, ModelTransport, ModelTransportTimeout or what the answer means."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._connections = Connections()

    async def open_chat(self, profile: ModelProfile, body: bytes) -> HttpExchange:
        """Sends a chat request. The answer is read by the caller, who releases or closes the exchange."""
        return await self._send(profile, "POST", "/api/chat", body)

    def release(self, exchange: HttpExchange) -> None:
        self._connections.release(exchange)

    async def version(self, profile: ModelProfile) -> str:
        """"" where the server does not tell."""
        value = (await self.ask(profile, "GET", "/api/version")).get("version")
        return value if isinstance(value, str) else ""

    async def show(self, profile: ModelProfile, *, verbose: bool = False) -> Json:
        return await self.ask(profile, "POST", "/api/show", {"model": profile.provider_model, **({"verbose": True} if verbose else {})})

    async def installed_digest(self, profile: ModelProfile) -> str | None:
        for item in _models(await self.ask(profile, "GET", "/api/tags")):
            if _same_model(item, profile.provider_model) and isinstance(item.get("digest"), str):
                return str(item["digest"])
        return None

    async def loaded(self, profile: ModelProfile) -> Loaded | None:
        """None when the server does not have the model in memory. Raises ModelNotFound where it has no /api/ps."""
        for item in _models(await self.ask(profile, "GET", "/api/ps")):
            if _same_model(item, profile.provider_model):
                digest, window = item.get("digest"), item.get("context_length")
                return Loaded(digest if isinstance(digest, str) else "", window if type(window) is int and window > 0 else None)
        return None

    async def ask(self, profile: ModelProfile, method: str, path: str, body: Json | None = None) -> Json:
        """One small JSON answer, within METADATA_S."""
        try:
            async with self._clock.timeout(METADATA_S):
                return await self._ask(profile, method, path, body)
        except TimeoutError:
            raise ModelTransportTimeout("The model server did not answer a small question in time.") from None

    def close(self) -> None:
        self._connections.close()

    async def _ask(self, profile: ModelProfile, method: str, path: str, body: Json | None) -> Json:
        exchange = await self._send(profile, method, path, None if body is None else json.dumps(body).encode())
        try:
            data = await read_all(exchange, PROVIDER_METADATA_BYTES)
        finally:
            exchange.close()
        if exchange.status != 200:
            raise status_fault(exchange.status, data[:PROVIDER_ERROR_BYTES])
        try:
            value = json.loads(data) if len(data) < PROVIDER_INLINE_BYTES else await asyncio.to_thread(json.loads, data)
        except (ValueError, RecursionError):
            raise ModelProtocol("The model server's answer is not JSON; is this an Ollama address?") from None
        if not isinstance(value, dict):
            raise ModelProtocol
        return value

    async def _send(self, profile: ModelProfile, method: str, path: str, body: bytes | None) -> HttpExchange:
        bearer = read_key(profile.api_key_file) if profile.api_key_file else None
        try:
            async with self._clock.timeout(CONNECT_S):
                return await self._connections.send(parse_endpoint(profile.endpoint), method, path, body, bearer)
        except TimeoutError:
            raise ModelTransportTimeout from None
        except OSError:
            raise ModelUnavailable from None


async def read_all(exchange: HttpExchange, limit: int) -> bytes:
    """The whole body, at most `limit` bytes; raises ModelTransport or ModelProtocol."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := await exchange.read():
            parts.append(part)
            size += len(part)
            if size > limit:
                raise ModelProtocol("The model server's answer is too long.")
    except ConnectionBroken:
        raise ModelTransport from None
    return b"".join(parts)


async def read_start(exchange: HttpExchange, limit: int) -> bytes:
    """The first `limit` bytes of an error answer; a broken connection only ends it earlier."""
    data = b""
    try:
        while len(data) < limit and (part := await exchange.read()):
            data += part
    except ConnectionBroken:
        pass  # the status alone still tells what happened
    return data[:limit]


def read_key(path: Path) -> str:
    """Read for each request, so that a new key needs no restart."""
    try:
        key = path.read_bytes()[: KEY_BYTES + 1].decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise ModelUnavailable("The key file of this model cannot be read.") from None
    if not key or len(key) > KEY_BYTES or not key.isprintable():
        raise ModelUnavailable("The key file of this model holds no key.")
    return key


def _models(answer: Json) -> list[Json]:
    items = answer.get("models")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _same_model(item: Json, name: str) -> bool:
    wanted = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    return wanted in (item.get("model"), item.get("name"))
