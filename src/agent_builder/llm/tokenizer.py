"""Exact token counts for byte-level BPE models, from the vocabulary that `/api/show` tells (keys `tokenizer.ggml.*` of
its `model_info`, as GGUF files hold them). Counts equal what the server reports as `prompt_eval_count` for the same text.
"""

import asyncio
import ctypes
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from agent_builder.llm.pretokenizers import SPLITS, WHOLE_WORDS_FIRST
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import (
    COUNT_DIGEST_BYTES,
    COUNTS_REMEMBERED,
    TOKENIZERS_LOADED,
)
from agent_builder.protocol.request import TokenCounter

EXACT: Final = "gguf-bpe-v1"
FALLBACK: Final = "utf8-bytes-upper-bound-v1"
log = logging.getLogger(__name__)
_CONTROL, _USER_DEFINED = 3, 4  # values of tokenizer.ggml.token_type that are matched in a text as a whole


class NoExactCounts(Exception):
    """Why this model's tokens cannot be counted exactly, in a few words."""


def vocabulary_fault(model_info: Mapping[str, object]) -> str | None:
    """What speaks against exact counts, as far as the names tell; the arrays may be left out."""
    kind, pre = model_info.get("tokenizer.ggml.model"), model_info.get("tokenizer.ggml.pre")
    if kind is None:
        return "the model server does not tell the model's tokenizer"
    if kind != "gpt2":
        return f"tokenizer kind {str(kind)[:40]!r} is not byte-level BPE"
    if pre not in SPLITS:
        return f"pre-tokenizer {str(pre)[:40]!r} is not known"
    return None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`tokens` by id; `merges` by rank, two parts with a blank between; `types` by id, empty where not told."""

    pre: str
    tokens: Sequence[str]
    merges: Sequence[str]
    types: Sequence[int]
    digest: str


def vocabulary(model_info: Mapping[str, object]) -> Vocabulary:
    """Raises NoExactCounts."""
    fault = vocabulary_fault(model_info)
    if fault is not None:
        raise NoExactCounts(fault)
    tokens, merges = _strings(model_info, "tokens"), _strings(model_info, "merges")
    types = model_info.get("tokenizer.ggml.token_type") or []
    if not tokens or not merges or not isinstance(types, list):
        raise NoExactCounts("the model server does not tell the model's vocabulary")
    pre = str(model_info["tokenizer.ggml.pre"])
    content = json.dumps([pre, tokens, merges, types], separators=(",", ":")).encode()
    return Vocabulary(pre, tokens, merges, types, digest_bytes(content))


def _strings(model_info: Mapping[str, object], name: str) -> list[str]:
    value = model_info.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return []
    return value


def build(words: Vocabulary) -> Tokenizer:
    """Takes a third of a second for a large vocabulary. Raises NoExactCounts."""
    ids = {token: index for index, token in enumerate(words.tokens)}
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in words.merges)]
    try:
        made = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=words.pre in WHOLE_WORDS_FIRST))
    except Exception as error:  # noqa: BLE001 -- the library raises plain Exception for a vocabulary that does not fit
        raise NoExactCounts(f"the vocabulary does not fit together ({type(error).__name__})") from None
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in SPLITS[words.pre]]
    made.pre_tokenizer = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(words.tokens, words.types, strict=False) if kind in (_CONTROL, _USER_DEFINED)]
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return made


class ExactCounter:
    """Counts texts with one tokenizer and remembers the counts by digest. Safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._lock = Lock()

    def count(self, text: str) -> int:
        if len(text) < COUNT_DIGEST_BYTES:
            return self._tokens(text)
        key = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        made = self._tokens(text)
        with self._lock:
            self._known[key] = made
            if len(self._known) > COUNTS_REMEMBERED:
                self._known.popitem(last=False)
        return made

    def _tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def byte_counter() -> TokenCounter:
    """The upper bound for every tokenizer: one token per UTF-8 byte."""
    return _BYTES


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


_BYTES = TokenCounter(FALLBACK, _bytes, exact=False)


class Tokenizers:
    """The counters in memory, at most two, and the built tokenizers in the cache folder, by vocabulary digest."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._loaded: OrderedDict[str, TokenCounter] = OrderedDict()

    async def counter(self, weights: str, ask: Callable[[], Awaitable[Mapping[str, object]]]) -> tuple[str, TokenCounter]:
        """The vocabulary's digest and its counter, built in a thread where needed. `weights`: the provider's digest of the
        model; `ask` gets its verbose description, megabytes, only where the cache does not have it. A cache that cannot be
        written costs only the next start. Raises NoExactCounts."""
        digest, made = await asyncio.to_thread(self._cached, weights)
        if not digest:
            info = (await ask()).get("model_info")
            words = await asyncio.to_thread(vocabulary, info if isinstance(info, dict) else {})
            digest = words.digest
            if digest not in self._loaded:
                made = await asyncio.to_thread(build, words)
            await asyncio.to_thread(self._keep, weights, digest, made)
        if made is not None:
            await asyncio.to_thread(_give_back_memory)
            self._loaded[digest] = TokenCounter(EXACT, ExactCounter(made).count, exact=True)
        return digest, self._use(digest)

    def loaded(self, digest: str) -> TokenCounter | None:
        return self._use(digest) if digest in self._loaded else None

    def _use(self, digest: str) -> TokenCounter:
        self._loaded.move_to_end(digest)
        while len(self._loaded) > TOKENIZERS_LOADED:
            self._loaded.popitem(last=False)
        return self._loaded[digest]

    def _cached(self, weights: str) -> tuple[str, Tokenizer | None]:
        """The vocabulary digest that was noted for these weights, and its tokenizer unless it is in memory."""
        try:
            digest = self._note(weights).read_text("ascii")
            if digest in self._loaded:
                return digest, None
            return digest, Tokenizer.from_file(str(self._cache / f"tokenizer-{digest}.json"))
        except Exception:  # noqa: BLE001 -- the library raises plain Exception for a missing or damaged file; it is made anew
            return "", None

    def _keep(self, weights: str, digest: str, made: Tokenizer | None) -> None:
        """Writes the tokenizer, unless it is in memory already, and under which weights it is to be found again."""
        try:
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            if made is not None:
                path = self._cache / f"tokenizer-{digest}.json"
                fresh = path.with_suffix(".new")
                made.save(str(fresh), pretty=False)
                fresh.replace(path)
            self._note(weights).write_text(digest, "ascii")
        except Exception as error:  # noqa: BLE001 -- the library raises plain Exception for a full disk
            log.warning("the tokenizer is not kept (%s): it will be built anew at the next start", type(error).__name__)

    def _note(self, weights: str) -> Path:
        return self._cache / f"vocabulary-of-{digest_bytes(weights.encode())}"


def _give_back_memory() -> None:
    """Reading a vocabulary takes many times its size for a moment (50 MiB for 150,000 tokens), which the C library would keep."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; other libraries have none
    if trim is not None:
        trim(0)
