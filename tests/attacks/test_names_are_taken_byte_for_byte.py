"""Two names that look alike are two files: case, composed and decomposed letters, look-alike characters."""

import unicodedata
from pathlib import Path

from tests.support.capability import make_run, put

COMPOSED, DECOMPOSED = "é.md", unicodedata.normalize("NFD", "é.md")


async def test_a_name_never_stands_for_another(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    names = [COMPOSED, DECOMPOSED, "A.md", "a.md", "а.md", " a.md", "a.md "]
    for number, name in enumerate(names):
        put(run.workspace, name, f"{number}\n")
    for number, name in enumerate(names):
        assert (await run.call("file/read_text", path=name)).text.endswith(f"\n{number}\n")
    assert (await run.call("file/edit", path=COMPOSED, old="0", new="changed")).outcome == "ok"
    assert (run.workspace / COMPOSED).read_text() == "changed\n"
    assert (run.workspace / DECOMPOSED).read_text() == "1\n"
