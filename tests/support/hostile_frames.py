"""What a Worker that has been taken over may send: frames that are right, almost right, wrong, or no frames at all.

Everything comes from one seeded generator. Each text that the Worker invents has the word HOSTILE in it, so that a test can
see whether any of it went further than it should.
"""

import json
from random import Random

from agent_builder.protocol.frames import (
    Failed,
    Final,
    LocalResult,
    ModelCall,
    Ready,
    Reference,
    Start,
    ToolCall,
    WorkerFrame,
    to_message,
)
from agent_builder.protocol.framing import encode_frame
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import ECHO_BYTES, IPC_FRAME_BYTES, IPC_VERSION
from agent_builder.protocol.tool_catalog import CATALOG

HOSTILE = "HOSTILE"
TOOL_IDS = [spec.id for spec in CATALOG.specs] + ["file/delete", "agent/delegate", "", "__proto__", HOSTILE]
ARGUMENTS: list[dict[str, object]] = [
    {"path": "a.md"}, {"path": "a.md", "content": HOSTILE}, {"path": "../outside", "content": HOSTILE}, {"path": "a.md", "old": "one", "new": HOSTILE},
    {"command": "true"}, {"command": f"printf {HOSTILE}"}, {"text": HOSTILE}, {}, {"path": None}, {"path": ["a.md"]}, {HOSTILE: {"deep": [1, 2, 3]}},
]
VALUES: list[object] = [None, True, False, 0, 1, -1, 1 << 31, 1 << 70, 0.5, "", HOSTILE, HOSTILE * 40, [], [HOSTILE] * 65, {}, {"kind": HOSTILE}]
NO_FRAMES = [
    b"\n", b" \n", b"[]\n", b"null\n", b"{}\n", b"{\n", b"\xff\xfe\n", b"\x00\n", b'{"kind":"start"}\n', b'{"kind":"HOSTILE"}\n',
    b'{"kind":"final","kind":"final","call":1}\n', b'{"kind":"final","call":NaN}\n', b'{"kind":"final","call":1e400}\n',
    b"[" * 5000 + b"\n", b'{"a":' * 2000 + b"\n", b'{"kind":"final","call":' + b"9" * 5000 + b"}\n",
    '{"kind":"final","call":1}'.encode("utf-16-le") + b"\n", b'\xef\xbb\xbf{"kind":"final","call":1}\n',
    b'{"kind":"failed","code":"\xed\xa0\x80"}\n', b'{"kind":"failed","code":"internal"} {"kind":"final","call":1}\n',
]


class HostileFrames:
    """`start`: what the host has told of the Run; nothing before it is known."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.start: Start | None = None
        self.call_ids: list[str] = []

    def frame(self) -> WorkerFrame:
        """A frame with every field in its bounds, whoever's turn it is."""
        pick = self.random
        match pick.randrange(6):
            case 0:
                return Ready(IPC_VERSION, pick.randrange(1 << 20), pick.choice([CATALOG.digest, HOSTILE]))
            case 1:
                return ModelCall(self._plan(), self._toolset(), [self._call_id() for _ in range(pick.randrange(3))])
            case 2:
                return ToolCall(self._call_id(), pick.choice(TOOL_IDS), dict(pick.choice(ARGUMENTS)))
            case 3:
                return LocalResult(self._call_id(), pick.choice([HOSTILE, HOSTILE * 900, "x" * ECHO_BYTES, ""]))
            case 4:
                return Final(pick.choice([0, 1, 1, 2, 3, 7, (1 << 31) - 1]))
            case _:
                return Failed(pick.choice(["model_tool_loop", "worker_protocol", "internal", "run_deadline", HOSTILE, ""]))

    def mutated(self, frame: WorkerFrame) -> bytes:
        """One thing about it is different: a field gone, added, renamed or with another value, or one byte."""
        pick, message = self.random, to_message(frame)
        name = pick.choice(list(message))
        match pick.randrange(5):
            case 0:
                del message[name]
            case 1:
                message[pick.choice([HOSTILE, "seq", "text", "call"])] = pick.choice(VALUES)
            case 2:
                message[name] = pick.choice(VALUES)
            case 3:
                message[name + "x"] = message.pop(name)
            case _:
                line = bytearray(encode_frame(message))
                line[pick.randrange(len(line))] = pick.randrange(256)
                return bytes(line)
        return json.dumps(message).encode() + b"\n"

    def no_frame(self) -> bytes:
        pick = self.random
        match pick.randrange(8):
            case 0:
                return pick.randbytes(pick.randrange(1, 300)) + pick.choice([b"", b"\n"])
            case 1:
                return b"x" * pick.choice([IPC_FRAME_BYTES - 1, IPC_FRAME_BYTES, IPC_FRAME_BYTES + 1, 3 * IPC_FRAME_BYTES]) + pick.choice([b"", b"\n"])
            case 2:
                line = encode_frame(to_message(self.frame()))
                return line[: pick.randrange(1, len(line))]
            case _:
                return pick.choice(NO_FRAMES)

    def anything(self) -> bytes:
        match self.random.randrange(3):
            case 0:
                return encode_frame(to_message(self.frame()))
            case 1:
                return self.mutated(self.frame())
            case _:
                return self.no_frame()

    def _plan(self) -> Reference:
        known = self.start.plan if self.start is not None else Reference(new_id(), HOSTILE)
        return self.random.choice([known, known, Reference(new_id(), known.digest), Reference(known.id, HOSTILE)])

    def _toolset(self) -> Reference:
        known = self.start.toolset if self.start is not None else Reference(new_id(), HOSTILE)
        return self.random.choice([known, known, Reference(new_id(), known.digest), Reference(known.id, HOSTILE)])

    def _call_id(self) -> str:
        return self.random.choice([*self.call_ids[-3:], *self.call_ids[-3:], "call_00000000", HOSTILE, ""])
