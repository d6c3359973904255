"""Exact counts: a vocabulary as a server tells it becomes a counter, and a text that was counted is not counted again."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.llm import tokenizer
from agent_builder.llm.pretokenizers import SPLITS
from agent_builder.llm.tokenizer import (
    ExactCounter,
    NoExactCounts,
    Tokenizers,
    build,
    byte_counter,
    vocabulary,
    vocabulary_fault,
)
from agent_builder.protocol.limits import (
    COUNT_DIGEST_BYTES,
    COUNTS_REMEMBERED,
    TOKENIZERS_LOADED,
)
from agent_builder.protocol.request import TemplateOverhead

PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = [chr(code) for code in PRINTABLE] + [chr(256 + index) for index in range(256 - len(PRINTABLE))]


def told(pre: str = "qwen2", merges: tuple[str, ...] = ("a b", "ab c", "Ġ ab", "1 2"), special: tuple[str, ...] = ("<|im_start|>",)) -> dict[str, Any]:
    """A vocabulary of all bytes, the merged tokens and control tokens."""
    tokens = [*BYTES, *(merge.replace(" ", "") for merge in merges), *special]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.token_type": [1] * (len(tokens) - len(special)) + [3] * len(special),
    }


def counter(**changes: Any) -> ExactCounter:
    return ExactCounter(build(vocabulary(told(**changes))))


@pytest.mark.parametrize(("text", "tokens"), [
    ("", 0), ("abc", 1), ("ab c", 3), ("abc abc", 3), ("中", 3), ("🙂", 4), ("<|im_start|>", 1), ("a<|im_start|>b", 3), ("<|im_start", 10), ("\n\n", 2), ("é", 2),
])
def test_texts_are_counted_by_merges_bytes_and_control_tokens(text: str, tokens: int) -> None:
    assert counter().count(text) == tokens


@pytest.mark.parametrize(("pre", "tokens"), [("qwen2", 2), ("smollm", 2), ("llama-bpe", 1), ("gpt-2", 1)])
def test_the_pre_tokenizer_decides_where_digits_are_cut(pre: str, tokens: int) -> None:
    assert counter(pre=pre).count("12") == tokens


@pytest.mark.parametrize(("pre", "tokens"), [("qwen2", 3), ("qwen35", 1)])
def test_marks_belong_to_their_letters_where_the_vocabulary_says_so(pre: str, tokens: int) -> None:
    mark = "\u0301".encode()
    first, second = BYTES[index(mark[0])], BYTES[index(mark[1])]
    merges = (f"{first} {second}", f"a {first}{second}")
    assert counter(pre=pre, merges=merges).count("a\u0301" if pre == "qwen35" else "a\u0301!") == (1 if pre == "qwen35" else tokens)


def index(byte: int) -> int:
    others = [code for code in range(256) if code not in PRINTABLE]
    return PRINTABLE.index(byte) if byte in PRINTABLE else len(PRINTABLE) + others.index(byte)


@pytest.mark.parametrize("pre", SPLITS)
def test_every_known_pre_tokenizer_can_be_built(pre: str) -> None:
    assert counter(pre=pre).count("Hello, wörld! 123 中文 don't\n\n  x") > 0


@given(st.text(max_size=60))
def test_no_text_has_more_tokens_than_bytes(text: str) -> None:
    size = len(text.encode(errors="surrogatepass"))
    assert _COUNTER.count(text) <= size
    assert byte_counter().count(text) == size


_COUNTER = counter()


@pytest.mark.parametrize(("change", "reason"), [
    ({"tokenizer.ggml.model": None}, "the model server does not tell the model's tokenizer"),
    ({"tokenizer.ggml.model": "llama"}, "tokenizer kind 'llama' is not byte-level BPE"),
    ({"tokenizer.ggml.pre": None}, "pre-tokenizer 'None' is not known"),
    ({"tokenizer.ggml.tokens": None}, "the model server does not tell the model's vocabulary"),
    ({"tokenizer.ggml.tokens": [1, 2]}, "the model server does not tell the model's vocabulary"),
    ({"tokenizer.ggml.merges": []}, "the model server does not tell the model's vocabulary"),
])
def test_what_is_missing_is_the_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoExactCounts, match=reason.replace("(", "\\(")):
        vocabulary({**told(), **change})


def test_names_alone_tell_most_reasons() -> None:
    assert vocabulary_fault({**told(), "tokenizer.ggml.tokens": None, "tokenizer.ggml.merges": None}) is None


def test_a_text_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    exact = counter()
    real = exact._tokens

    def noted(text: str) -> int:
        made.append(text)
        return real(text)

    monkeypatch.setattr(exact, "_tokens", noted)
    long = "abc " * COUNT_DIGEST_BYTES
    assert exact.count(long) == exact.count(long)
    assert made == [long]
    for number in range(COUNTS_REMEMBERED):
        exact.count(f"{number} {'x' * COUNT_DIGEST_BYTES}")
    exact.count(long)
    assert made.count(long) == 2


class Asked:
    """Answers of /api/show, counted."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info, self.times = info, 0

    async def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"model_info": self.info}


async def test_a_tokenizer_is_kept_on_disk_by_vocabulary_and_found_by_weights(tmp_path: Path) -> None:
    asked = Asked(told())
    digest, first = await Tokenizers(tmp_path / "cache").counter("weights", asked)
    again, second = await Tokenizers(tmp_path / "cache").counter("weights", asked)
    assert (again, second.count("abc"), asked.times) == (digest, first.count("abc"), 1)
    assert (first.name, first.exact, first.overhead) == ("gguf-bpe-v1", True, TemplateOverhead(256, 16, 16, 16))


async def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    asked = Asked(told())
    digest, _ = await Tokenizers(tmp_path).counter("weights", asked)
    (tmp_path / f"tokenizer-{digest}.json").write_text("{")
    _, made = await Tokenizers(tmp_path).counter("weights", asked)
    assert (made.count("abc"), asked.times) == (1, 2)


async def test_a_cache_that_cannot_be_written_does_not_prevent_counting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("where a folder is wanted")
    _, made = await Tokenizers(tmp_path / "file" / "cache").counter("weights", Asked(told()))
    assert made.count("abc") == 1
    assert "is not kept" in caplog.text


async def test_a_disk_that_is_full_does_not_prevent_counting(tmp_path: Path) -> None:
    digest, _ = await Tokenizers(tmp_path / "other").counter("weights", Asked(told()))
    (tmp_path / f"tokenizer-{digest}.new").symlink_to("/dev/full")
    asked = Asked(told())
    for times in (1, 2):
        assert (await Tokenizers(tmp_path).counter("weights", asked))[1].count("abc") == 1
        assert asked.times == times


async def test_a_hostile_digest_names_no_file_elsewhere(tmp_path: Path) -> None:
    await Tokenizers(tmp_path / "cache").counter("../../outside", Asked(told()))
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / "cache"}


async def test_two_tokenizers_stay_in_memory(tmp_path: Path) -> None:
    tokenizers = Tokenizers(tmp_path)
    digests = [(await tokenizers.counter(f"weights {number}", Asked(told(special=(f"<{number}>",)))))[0] for number in range(TOKENIZERS_LOADED + 1)]
    assert [tokenizers.loaded(digest) is not None for digest in digests] == [False, True, True]


async def test_one_vocabulary_of_two_models_is_loaded_once(tmp_path: Path) -> None:
    tokenizers = Tokenizers(tmp_path)
    _, first = await tokenizers.counter("one", Asked(told()))
    _, second = await tokenizers.counter("two", Asked(told()))
    assert second is first


def test_the_names_of_the_estimators() -> None:
    assert (tokenizer.EXACT, tokenizer.FALLBACK) == ("gguf-bpe-v1", "utf8-bytes-upper-bound-v1")
