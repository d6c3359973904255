"""The access token: read once from its file, compared in constant time, never shown."""

import hashlib
import hmac
import os
import re
import stat
from pathlib import Path

from agent_builder.protocol.limits import TOKEN_MAX_CHARS, TOKEN_MIN_CHARS

_TOKEN = re.compile(rb"[A-Za-z0-9._~+-]{%d,%d}" % (TOKEN_MIN_CHARS, TOKEN_MAX_CHARS))
_ASCII_BLANKS = " \t\r\n"


class AccessTokenUnusable(Exception):
    """The token file cannot be used; the message says why and never holds any of its text."""


class AccessToken:
    """A secret that can only be compared with."""

    __slots__ = ("_digest",)

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()

    def matches(self, offered: str) -> bool:
        """Blanks around what was pasted are dropped, nothing else. Digests of equal length are compared, so that the time
        tells nothing."""
        bare = offered.strip(_ASCII_BLANKS).encode(errors="surrogatepass")
        return hmac.compare_digest(hashlib.sha256(bare).digest(), self._digest)

    def __repr__(self) -> str:
        return "AccessToken(...)"


def read_access_token(path: Path) -> AccessToken:
    """The token in `path`: an owned private file with the token and at most one line end. Raises AccessTokenUnusable."""
    raw = _read_private(path)
    line = raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw
    if not _TOKEN.fullmatch(line):
        raise AccessTokenUnusable(
            f"The token file {path.name} must hold {TOKEN_MIN_CHARS} to {TOKEN_MAX_CHARS} characters of A-Z a-z 0-9 . _ ~ + - "
            "and at most one line end; set it anew with ./set-access-token.sh."
        )
    return AccessToken(line.decode("ascii"))


def _read_private(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise AccessTokenUnusable(f"The token file {path.name} cannot be opened: {error.strerror}.") from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_nlink != 1:
            raise AccessTokenUnusable(f"The token file {path.name} must be one regular file of your own.")
        if stat.S_IMODE(facts.st_mode) & 0o077:
            raise AccessTokenUnusable(f"The token file {path.name} is readable by others; run: chmod 600 {path.name}")
        return os.read(descriptor, TOKEN_MAX_CHARS + len(b"\r\n") + 1)
    finally:
        os.close(descriptor)
