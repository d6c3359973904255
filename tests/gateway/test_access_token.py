import os
from pathlib import Path

import pytest

from agent_builder.gateway.access_token import AccessToken, AccessTokenUnusable, read_access_token

TOKEN = "0123456789abcdef" * 4


def written(folder: Path, raw: bytes, mode: int = 0o600) -> Path:
    path = folder / "web-bootstrap-token"
    path.write_bytes(raw)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_one_line_end_belongs_to_the_file_and_not_to_the_token(tmp_path: Path, end: bytes) -> None:
    assert read_access_token(written(tmp_path, TOKEN.encode() + end)).matches(TOKEN)


@pytest.mark.parametrize("raw", [
    b"", b"\n", TOKEN.encode() + b"\n\n", TOKEN.encode() + b"\r", TOKEN.encode() + b"\n" + TOKEN.encode(), b" " + TOKEN.encode(),
    TOKEN.encode() + b" \n", b"a b c d e f g", "０１２３４５６７８９ab".encode(), b"\xff" * 20, b"a" * 9, b"a" * 129, b"a" * 128 + b"\r\n\n",
])
def test_any_other_file_is_refused_without_showing_its_text(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(AccessTokenUnusable) as refused:
        read_access_token(written(tmp_path, raw))
    assert TOKEN not in str(refused.value)
    assert "web-bootstrap-token" in str(refused.value)


@pytest.mark.parametrize("token", ["a" * 10, "A" * 128, "._~+-._~+-9"])
def test_every_token_that_may_be_set_may_be_read(tmp_path: Path, token: str) -> None:
    assert read_access_token(written(tmp_path, token.encode() + b"\n")).matches(token)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(AccessTokenUnusable, match="chmod 600"):
        read_access_token(written(tmp_path, TOKEN.encode(), mode))


def test_links_and_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    real = written(tmp_path, TOKEN.encode())
    (tmp_path / "link").symlink_to(real)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", ".", "missing"):
        with pytest.raises(AccessTokenUnusable):
            read_access_token(tmp_path / name)
    os.link(real, tmp_path / "second")
    with pytest.raises(AccessTokenUnusable):
        read_access_token(real)


@pytest.mark.parametrize("pasted", [f" {TOKEN}", f"{TOKEN}\n", f"\t{TOKEN}\r\n"])
def test_blanks_around_a_pasted_token_are_dropped(pasted: str) -> None:
    assert AccessToken(TOKEN).matches(pasted)


@pytest.mark.parametrize("pasted", [
    "", TOKEN.upper(), TOKEN + "\u200b", "\ufeff" + TOKEN, "\u3000" + TOKEN, TOKEN.replace("0", "０"), TOKEN[:-1], TOKEN + "0",
    TOKEN[:32] + " " + TOKEN[32:], "\ud800",
])
def test_any_other_spelling_does_not_match(pasted: str) -> None:
    assert not AccessToken(TOKEN).matches(pasted)


def test_a_token_never_shows_itself() -> None:
    token = AccessToken(TOKEN)
    assert TOKEN not in repr(token)
    assert not hasattr(token, "__dict__")
