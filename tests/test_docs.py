"""Documents tell the truth: numbers, links and indices are compared with what they speak of."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_builder.protocol import limits

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_page_of_limits_is_what_the_code_says() -> None:
    assert subprocess.run([sys.executable, ROOT / "scripts/write_limits.py", "--check"]).returncode == 0


def test_every_limit_has_unit_and_reason() -> None:
    for line in (ROOT / "src/agent_builder/protocol/limits.py").read_text().splitlines():
        if re.match(r"[A-Z]", line):
            assert re.fullmatch(r"[A-Z][A-Z0-9_]* = [^#]+  # [a-zA-Z0-9 /]+: .+", line), line


def test_every_limit_is_used() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py") if path.name != "limits.py")
    own = (ROOT / "src/agent_builder/protocol/limits.py").read_text()
    names = re.findall(r"^([A-Z][A-Z0-9_]*) = ", own, re.MULTILINE)
    unused = [name for name in names if not re.search(rf"\b{name}\b", source) and len(re.findall(rf"\b{name}\b", own)) < 2]
    assert unused == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_and_decision_is_in_its_index() -> None:
    for index in (ROOT / "docs/README.md", ROOT / "docs/adr/README.md"):
        text = index.read_text()
        missing = [path.name for path in index.parent.glob("*.md") if path != index and f"({path.name})" not in text]
        assert missing == []


def test_decision_records_are_short_and_complete() -> None:
    for path in (ROOT / "docs/adr").glob("0*.md"):
        text = path.read_text()
        assert len(text.splitlines()) <= 40, path.name
        for part in ("Context", "Decision", "Rejected", "Revisit when"):
            assert f"**{part}.**" in text, f"{path.name}: {part}"


def test_the_readme_names_the_port() -> None:
    for name in ("README.md", "README.zh-CN.md"):
        assert str(limits.GATEWAY_PORT) in (ROOT / name).read_text()
