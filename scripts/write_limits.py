"""Writes docs/limits.md from src/agent_builder/protocol/limits.py; with --check only compares."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from agent_builder.protocol import limits  # noqa: E402 - the path must be set first

SOURCE = ROOT / "src/agent_builder/protocol/limits.py"
TARGET = ROOT / "docs/limits.md"
LINE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*) = (?P<value>[^#]+?)  # (?P<unit>[^:]+): (?P<reason>.+)")
HEAD = """# Limits

Every hard bound of the program. This page is made from `src/agent_builder/protocol/limits.py` by `scripts/write_limits.py`; a test
compares the two.
"""


def text() -> str:
    lines = [HEAD]
    for line in SOURCE.read_text().splitlines():
        if line.startswith("# "):
            lines += [f"## {line[2:]}", "", "| name | value | unit | what |", "| --- | ---: | --- | --- |"]
        elif match := LINE.fullmatch(line):
            lines.append(f"| `{match['name']}` | {getattr(limits, match['name'])} | {match['unit']} | {match['reason']} |")
        elif not line:
            lines.append("")
        elif not line.startswith('"""'):
            raise SystemExit(f"not understood: {line}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text() != text())
    TARGET.write_text(text())
