"""Identifiers: lower-case UUIDs, one NewType per thing they name."""

import os
from typing import NewType

AgentId = NewType("AgentId", str)
ConversationId = NewType("ConversationId", str)
TurnId = NewType("TurnId", str)
RunId = NewType("RunId", str)
OperationId = NewType("OperationId", str)
PermissionId = NewType("PermissionId", str)
CallId = NewType("CallId", str)

SYSTEM_AGENT_ID = AgentId("00000000-0000-4000-8000-000000000001")

_GROUPS = (8, 4, 4, 4, 12)
_HEX = frozenset("0123456789abcdef")


def new_id() -> str:
    """A random version 4 UUID in lower case. (`import uuid` would cost the Worker several milliseconds.)"""
    raw = bytearray(os.urandom(16))
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: object) -> bool:
    """Whether `text` is a UUID in the one spelling used everywhere: lower case, with hyphens."""
    if not isinstance(text, str):
        return False
    parts = text.split("-")
    return tuple(map(len, parts)) == _GROUPS and all(_HEX.issuperset(part) for part in parts)
