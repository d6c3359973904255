"""The access token's file: made once with 256 random bits."""

import os
import secrets
from pathlib import Path

from agent_builder.protocol.limits import ACCESS_TOKEN_RANDOM_BYTES


def ensure_token(path: Path) -> bool:
    """True when the token was created: 64 lower-case hex digits, 0600. An existing one is never touched."""
    if path.exists():
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    building = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(ACCESS_TOKEN_RANDOM_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(building, path)
    except FileExistsError:
        return False  # another start was first
    finally:
        building.unlink()
    return True
