"""The first start makes the access token; later ones leave it alone."""

import re
from pathlib import Path

from agent_builder.ops.access_token import ensure_token


def test_the_token_has_256_bits_in_lower_case_hex_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "secrets/web-bootstrap-token"
    assert ensure_token(path)
    assert re.fullmatch(r"[0-9a-f]{64}\n", path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_existing_token_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("operator's own")
    assert not ensure_token(path)
    assert path.read_text() == "operator's own"


def test_two_tokens_differ(tmp_path: Path) -> None:
    ensure_token(tmp_path / "a")
    ensure_token(tmp_path / "b")
    assert (tmp_path / "a").read_text() != (tmp_path / "b").read_text()
