"""The one way to make a digest: SHA-256 over canonical JSON, 64 lower-case hex digits."""

import json

try:
    from _sha256 import sha256  # type: ignore[import-not-found] # hashlib loads OpenSSL: 4 MiB and 3 ms in every Worker
except ImportError:
    from hashlib import sha256


def canonical_json(value: object) -> bytes:
    """Sorted keys, no blanks, UTF-8. Raises TypeError for what JSON cannot hold, ValueError for NaN and lone surrogates."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_bytes(data: bytes) -> str:
    return str(sha256(data).hexdigest())


def digest_of(value: object) -> str:
    return digest_bytes(canonical_json(value))
