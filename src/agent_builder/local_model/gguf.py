"""Gguf: the header of a GGUF weights file (format: ggml's gguf.md, versions 2 and 3), read without loading the weights."""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_builder.local_model import bounds

MAGIC = b"GGUF"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 39: "MXFP4",
}  # fmt: skip
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 32: "BF16", 38: "MXFP4",
}  # fmt: skip


class GgufError(Exception):
    """The file is not a GGUF file that this reader understands; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class LongArray:
    """Where a metadata array stands in the file; `Gguf.array` reads it."""

    item_type: int
    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    type: str
    shape: list[int]


@dataclass(frozen=True, slots=True)
class Gguf:
    """`metadata` keeps the file's order; arrays longer than a handful of values are LongArray."""

    path: Path
    metadata: dict[str, Any]
    tensors: list[Tensor]

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", "unknown"))

    @property
    def context_length(self) -> int:
        return int(self.metadata.get(f"{self.architecture}.context_length", bounds.NUM_CTX))

    @property
    def parameter_count(self) -> int:
        total = 0
        for tensor in self.tensors:
            elements = 1
            for length in tensor.shape:
                elements *= length
            total += elements
        return total

    @property
    def quantization(self) -> str:
        return FILE_TYPES.get(int(self.metadata.get("general.file_type", -1)), "unknown")

    @property
    def chat_template(self) -> str:
        return str(self.metadata.get("tokenizer.chat_template", ""))

    def array(self, key: str) -> list[Any]:
        """The values of an array; a vocabulary of 150,000 strings takes a few tenths of a second."""
        value = self.metadata[key]
        if not isinstance(value, LongArray):
            return list(value)
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return _Reader(view, value.offset).items(value.item_type, value.count)

    def end_of_turn(self) -> str:
        """The token that ends an answer, for the `stop` parameter that /api/show lists; empty when the file names none."""
        tokens, position = self.metadata.get("tokenizer.ggml.tokens"), self.metadata.get("tokenizer.ggml.eos_token_id")
        if not isinstance(tokens, LongArray) or not isinstance(position, int) or position >= tokens.count:
            return ""
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            reader = _Reader(view, tokens.offset)
            reader.skip(STRING, position)
            return reader.string()


def read_gguf(path: Path) -> Gguf:
    """Reads header, metadata and tensor table. Raises GgufError for anything else than a whole GGUF header."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return _read(path, _Reader(view, 0))
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise GgufError(f"{path.name} is damaged or not a GGUF file") from error


def _read(path: Path, reader: "_Reader") -> Gguf:
    if reader.raw(len(MAGIC)) != MAGIC:
        raise GgufError(f"{path.name} is not a GGUF file")
    version = reader.number("I")
    if version not in (2, 3):
        raise GgufError(f"{path.name} has GGUF version {version}; 2 and 3 are understood")
    tensors = _bounded(reader.number("Q"), bounds.TENSORS)
    keys = _bounded(reader.number("Q"), bounds.METADATA_KEYS)
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.string()
        metadata[key] = reader.value(reader.number("I"))
    return Gguf(path, metadata, [_tensor(reader) for _ in range(tensors)])


def _tensor(reader: "_Reader") -> Tensor:
    name = reader.string()
    shape = [reader.number("Q") for _ in range(_bounded(reader.number("I"), bounds.TENSOR_DIMENSIONS))]
    kind = reader.number("I")
    reader.number("Q")
    return Tensor(name, TENSOR_TYPES.get(kind, str(kind)), shape)


def _bounded(count: int, limit: int) -> int:
    if count > limit:
        raise ValueError(f"{count} is over {limit}")
    return count


class _Reader:
    """Little-endian values one after the other."""

    def __init__(self, view: mmap.mmap, offset: int) -> None:
        self.view = view
        self.offset = offset

    def raw(self, length: int) -> bytes:
        if self.offset + length > len(self.view):
            raise ValueError("past the end")
        self.offset += length
        return self.view[self.offset - length : self.offset]

    def number(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        return struct.unpack("<" + code, self.raw(size))[0]

    def string(self) -> str:
        return self.raw(_bounded(self.number("Q"), bounds.STRING_BYTES)).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.number(SCALARS[kind]) if kind in SCALARS else _unknown(kind)
        item = self.number("I")
        count = _bounded(self.number("Q"), bounds.ARRAY_ITEMS)
        if count <= bounds.SHOWN_ARRAY:
            return self.items(item, count)
        start = self.offset
        self.skip(item, count)
        return LongArray(item, count, start)

    def items(self, kind: int, count: int) -> list[Any]:
        if kind == STRING:
            return [self.string() for _ in range(count)]
        if kind not in SCALARS:
            _unknown(kind)
        return list(struct.unpack(f"<{count}{SCALARS[kind]}", self.raw(count * struct.calcsize(SCALARS[kind]))))

    def skip(self, kind: int, count: int) -> None:
        if kind in SCALARS:
            self.raw_skip(count * struct.calcsize(SCALARS[kind]))
            return
        if kind != STRING:
            _unknown(kind)
        unpack, view, offset, end = struct.Struct("<Q").unpack_from, self.view, self.offset, len(self.view)
        for _ in range(count):
            offset += struct.calcsize("<Q") + unpack(view, offset)[0]
            if offset > end:
                raise ValueError("past the end")
        self.offset = offset

    def raw_skip(self, length: int) -> None:
        if self.offset + length > len(self.view):
            raise ValueError("past the end")
        self.offset += length


def _unknown(kind: int) -> Any:
    raise GgufError(f"a metadata value has the unknown type {kind}")
