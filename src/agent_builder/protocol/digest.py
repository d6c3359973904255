"""The one way to make a digest: SHA-256 over canonical JSON, 64 lower-case hex digits."""

import hashlib
import json


def canonical_json(value: object) -> bytes:
    """Sorted keys, no blanks, UTF-8. Raises TypeError for what JSON cannot hold, ValueError for NaN and lone surrogates."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(value: object) -> str:
    return digest_bytes(canonical_json(value))
