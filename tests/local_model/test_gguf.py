"""A weights file's header is read exactly, and a damaged one is refused with a sentence."""

import struct
from pathlib import Path

import pytest

from agent_builder.local_model.gguf import GgufError, LongArray, Tensor, read_gguf
from agent_builder.local_model.ollama_shapes import open_model, show


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def strings(*values: str) -> bytes:
    return struct.pack("<IQ", 8, len(values)) + b"".join(text(each) for each in values)


METADATA = [
    entry("general.architecture", 8, text("qwen2")),
    entry("general.name", 8, text("hidden")),
    entry("general.file_type", 4, struct.pack("<I", 15)),
    entry("qwen2.context_length", 4, struct.pack("<I", 32768)),
    entry("qwen2.rope.freq_base", 6, struct.pack("<f", 1e6)),
    entry("tokenizer.ggml.add_bos_token", 7, b"\x00"),
    entry("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 6)),
    entry("tokenizer.ggml.tokens", 9, strings("a", "b", "c", "d", "e", "字", "<|end|>")),
    entry("tokenizer.ggml.token_type", 9, struct.pack("<IQ7i", 5, 7, 1, 1, 1, 1, 1, 1, 3)),
    entry("short", 9, strings("x", "y")),
    entry("tokenizer.chat_template", 8, text("{% if tools %}…{% endif %}")),
]
TENSOR = text("w") + struct.pack("<IQQIQ", 2, 4, 3, 12, 0)


def weights(folder: Path, data: bytes | None = None) -> Path:
    path = folder / "w.gguf"
    whole = b"GGUF" + struct.pack("<IQQ", 3, 1, len(METADATA)) + b"".join(METADATA) + TENSOR
    path.write_bytes(whole if data is None else data)
    return path


def test_a_header_is_read(tmp_path: Path) -> None:
    gguf = read_gguf(weights(tmp_path))
    assert (gguf.architecture, gguf.context_length, gguf.parameter_count, gguf.quantization) == ("qwen2", 32768, 12, "Q4_K_M")
    assert gguf.tensors == [Tensor("w", "Q4_K", [4, 3])]
    assert gguf.metadata["short"] == ["x", "y"]
    assert isinstance(gguf.metadata["tokenizer.ggml.tokens"], LongArray)
    assert gguf.end_of_turn() == "<|end|>"


def test_long_arrays_are_read_on_request(tmp_path: Path) -> None:
    gguf = read_gguf(weights(tmp_path))
    assert gguf.array("tokenizer.ggml.tokens") == ["a", "b", "c", "d", "e", "字", "<|end|>"]
    assert gguf.array("tokenizer.ggml.token_type") == [1, 1, 1, 1, 1, 1, 3]


def test_show_hides_the_template_among_the_metadata_and_blanks_the_vocabulary(tmp_path: Path) -> None:
    model = open_model("m:1b", "M", weights(tmp_path), "d" * 64)
    plain, verbose = show(model, verbose=False), show(model, verbose=True)
    assert plain["capabilities"] == ["completion", "tools"]
    assert plain["model_info"]["tokenizer.ggml.tokens"] is None
    assert verbose["model_info"]["tokenizer.ggml.tokens"][5] == "字"
    assert not {"general.name", "tokenizer.chat_template"} & set(plain["model_info"])


@pytest.mark.parametrize("length", [0, 3, 4, 20, 100, 300])
def test_a_file_that_ends_too_early_is_refused(tmp_path: Path, length: int) -> None:
    whole = weights(tmp_path).read_bytes()
    with pytest.raises(GgufError):
        read_gguf(weights(tmp_path, whole[:length]))


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" + b"\x00" * 100,
        b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40),
        b"GGUF" + struct.pack("<IQQ", 3, 2**40, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 99, b"\x00" * 8),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 9, struct.pack("<IQ", 9, 1)),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("k", 9, struct.pack("<IQ", 8, 2**60)),
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(GgufError):
        read_gguf(weights(tmp_path, data))
