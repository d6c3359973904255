"""The release catalog: every Tool there is, in the order in which providers see them. The text is terse because a
local model evaluates all of it."""

from agent_builder.protocol.limits import (
    AGENT_ID_BYTES,
    COMMAND_BYTES,
    COMMAND_OUTPUT_BYTES,
    DELEGATE_ANSWER_BYTES,
    DELEGATE_MESSAGE_BYTES,
    ECHO_BYTES,
    EDIT_FRAGMENT_BYTES,
    PATH_BYTES,
    PATTERN_BYTES,
    READ_BYTES,
    READ_LINES,
    READ_RESULT_BYTES,
    SEARCH_RESULT_BYTES,
    WRITE_BYTES,
)
from agent_builder.protocol.toolspec import AGENT, ALLOW, ASK, FILE, PROCESS, ToolCatalog, ToolSpec

_PATH: dict[str, object] = {"type": "string", "maxBytes": PATH_BYTES}

CATALOG = ToolCatalog((
    ToolSpec("file/read_text", 1, f"Read a text file, at most {READ_BYTES} bytes or {READ_LINES} lines a call.",
             {"path": _PATH, "start_line": {"type": "integer", "minimum": 1, "maximum": 1 << 30},
              "max_lines": {"type": "integer", "minimum": 1, "maximum": READ_LINES}}, ("path",), ALLOW, READ_RESULT_BYTES),
    ToolSpec("file/stat", 1, "Size, lines and digest of a file, or whether a directory exists.", {"path": _PATH}, ("path",), ALLOW, READ_RESULT_BYTES),
    ToolSpec("file/glob", 1, "List files by pattern: * in a name, ** for any depth, [[] for a literal [.",
             {"pattern": {"type": "string", "maxBytes": PATTERN_BYTES}}, ("pattern",), ALLOW, SEARCH_RESULT_BYTES),
    ToolSpec("file/grep", 1, "Find a text in files. Literal unless regex is true (simple patterns only).",
             {"pattern": {"type": "string", "maxBytes": PATTERN_BYTES}, "path": _PATH, "regex": {"type": "boolean"}},
             ("pattern",), ALLOW, SEARCH_RESULT_BYTES),
    ToolSpec("file/edit", 1, "Replace old, a text that occurs exactly once in the file, by new. Read that part first. Files up to 1 MiB. The operator must approve.",
             {"path": _PATH, "old": {"type": "string", "maxBytes": EDIT_FRAGMENT_BYTES}, "new": {"type": "string", "maxBytes": EDIT_FRAGMENT_BYTES}},
             ("path", "old", "new"), ASK, READ_RESULT_BYTES, FILE),
    ToolSpec("file/write", 1, f"Create a file or replace all of its text, at most {WRITE_BYTES} bytes. The operator must approve.",
             {"path": _PATH, "content": {"type": "string", "maxBytes": WRITE_BYTES}}, ("path", "content"), ASK, READ_RESULT_BYTES, FILE),
    ToolSpec("exec/run", 1, "Run 'runtime-compile' (checks all *.py files for syntax errors) or one of printf, pwd, true, false. The operator must approve.",
             {"command": {"type": "string", "maxBytes": COMMAND_BYTES}}, ("command",), ASK, COMMAND_OUTPUT_BYTES, PROCESS),
    ToolSpec("agent/delegate", 1, "Ask another Agent, once. It knows nothing of this Conversation and works in its own files. The operator must approve.",
             {"agent_id": {"type": "string", "maxBytes": AGENT_ID_BYTES}, "message": {"type": "string", "maxBytes": DELEGATE_MESSAGE_BYTES}},
             ("agent_id", "message"), ASK, DELEGATE_ANSWER_BYTES, AGENT, optional=True),
    ToolSpec("builtin/echo", 1, "Give the text back.", {"text": {"type": "string", "maxBytes": ECHO_BYTES}}, ("text",), ALLOW, READ_BYTES,
             local=True, offered=False),
))
