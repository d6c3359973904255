"""The fewest tokens that a server can honestly report."""

from dataclasses import replace

import pytest

from agent_builder.llm.tripwire import counts_cached_tokens, lower_bound
from agent_builder.protocol.limits import TRIPWIRE_TOKENS
from tests.llm.bench import READ, rendered


@pytest.mark.parametrize(("version", "counted"), [
    ("0.30.0", False), ("0.30", False), ("0.30.11-rc1", False), ("0.24.0", True), ("0.34.0", True), ("0.3.0", True), ("0.300.1", True), ("0.0.0", True), ("", True),
])
def test_one_series_leaves_out_cached_tokens(version: str, counted: bool) -> None:
    assert counts_cached_tokens(version) is counted


def test_exact_counts_allow_for_seams_schemas_and_trimmed_blanks() -> None:
    request = rendered("word " * 800, tools=[READ], exact=True)
    assert lower_bound(request, 0) == request.text_tokens - (request.prefix_tokens[0] + 1) // 2 - 1 - 4 * 2
    blanks = rendered("word " * 800 + "\n" * 500, exact=True)
    assert lower_bound(blanks, 0) == blanks.text_tokens - 501 - 4 * 2


def test_rough_counts_take_half_of_a_token_for_sixteen_bytes() -> None:
    assert lower_bound(rendered("ab" * 4000, system=""), 0) == 8000 // 16 // 2
    assert lower_bound(rendered("ab" * 4000, system="cd" * 4000), 900) == (900 + 500) // 2


def test_runs_of_one_character_prove_nothing() -> None:
    assert lower_bound(rendered("-" * 30_000, system=""), 0) == 0


def test_small_requests_trip_nothing() -> None:
    request = replace(rendered("hello"), text_tokens=TRIPWIRE_TOKENS, exact=True)
    assert lower_bound(request, 0) == 0
