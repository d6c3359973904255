"""The fewest tokens that a server can honestly report."""

import json
from dataclasses import replace

import pytest

from agent_builder.context.costs import message_cost
from agent_builder.llm.tripwire import counts_cached_tokens, exact_bound, rough_bound
from agent_builder.protocol.limits import SEAM_TOKENS, TRIPWIRE_TOKENS
from agent_builder.protocol.request import TokenCounter
from tests.llm.bench import READ, rendered
from tests.support.fake_ollama import RECORDINGS


@pytest.mark.parametrize(("version", "counted"), [
    ("0.30.0", False), ("0.30", False), ("0.30.11-rc1", False), ("0.24.0", True), ("0.34.0", True), ("0.3.0", True), ("0.300.1", True), ("0.0.0", True), ("", True),
])
def test_one_series_leaves_out_cached_tokens(version: str, counted: bool) -> None:
    assert counts_cached_tokens(version) is counted


def test_exact_counts_allow_for_seams_schemas_and_trimmed_blanks() -> None:
    request = rendered("word " * 800, tools=[READ], exact=True)
    assert exact_bound(request, tools=True) == request.text_tokens - (request.prefix_tokens[0] + 1) // 2 - 1 - 4 * 2
    blanks = rendered("word " * 800 + "\n" * 500, exact=True)
    assert exact_bound(blanks, tools=True) == blanks.text_tokens - 501 - 4 * 2


def test_rough_counts_take_half_of_a_token_for_sixteen_bytes() -> None:
    assert rough_bound(rendered("ab" * 4000, system=""), 0, tools=True) == 8000 // 16 // 2
    assert rough_bound(rendered("ab" * 4000, system="cd" * 4000), 900, tools=True) == (900 + 500) // 2


def test_runs_of_one_character_prove_nothing() -> None:
    assert rough_bound(rendered("-" * 30_000, system=""), 0, tools=True) == 0


def test_small_requests_trip_nothing() -> None:
    sizes = (0, TRIPWIRE_TOKENS + SEAM_TOKENS, SEAM_TOKENS)
    request = replace(rendered("hello"), prefix_tokens=sizes, exact=True)
    assert exact_bound(request, tools=True) == TRIPWIRE_TOKENS
    assert exact_bound(replace(request, prefix_tokens=(0, TRIPWIRE_TOKENS + SEAM_TOKENS - 1, SEAM_TOKENS)), tools=True) == 0


HISTORY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Write the report."},
    {"role": "assistant", "content": "I write it now.", "tool_calls": [
        {"id": "call_1", "function": {"index": 0, "name": "file_write_text", "arguments": {"path": "r.md", "text": "word " * 1200}}},
    ]},
    {"role": "tool", "tool_name": "file_write_text", "tool_call_id": "call_1", "content": "written " * 100},
    {"role": "assistant", "content": "It is written."},
    {"role": "user", "content": "Thank you. " * 60},
]


def as_the_recorded_template_renders(name: str, tools: bool) -> str:
    """The texts that the two recorded templates take of HISTORY. The one with tools renders calls only where there is no text
    beside them, the one without tools shows contents alone."""
    template = json.loads(json.loads((RECORDINGS / f"{name}.json").read_text())["response"]["lines"][0][1])["template"]
    assert ("{{ if .Content }}{{ .Content }}\n{{- else if .ToolCalls }}" in template) is tools
    assert (".ToolCalls" in template) is tools
    return "".join(str(message["content"]) for message in HISTORY if tools or message["role"] != "tool")


@pytest.mark.parametrize(("name", "tools"), [("show", True), ("show-no-tools", False)])
def test_a_template_that_leaves_out_tool_calls_trips_nothing(name: str, tools: bool) -> None:
    counter = TokenCounter("test", lambda text: len(text) // 4, exact=True)
    sizes = tuple(message_cost(message, counter).text for message in HISTORY)
    request = replace(
        rendered("x"), messages=tuple(HISTORY), text_tokens=sum(sizes), prefix_tokens=(0, *sizes), exact=True,
    )
    honest = len(as_the_recorded_template_renders(name, tools)) // 4
    assert TRIPWIRE_TOKENS < exact_bound(request, tools=tools) <= honest
    assert rough_bound(request, 0, tools=tools) <= honest
