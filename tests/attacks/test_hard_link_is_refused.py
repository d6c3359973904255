"""A second name for a file outside would make an edit inside an edit outside."""

import os
from pathlib import Path

from tests.support.capability import make_run, put


async def test_a_file_with_two_names_is_neither_read_nor_changed(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outside = put(tmp_path, "outside/secret.txt", "the secret outside\n")
    os.link(outside, run.workspace / "inside.txt")
    calls: list[tuple[str, dict[str, object]]] = [
        ("file/read_text", {}), ("file/stat", {}), ("file/edit", {"old": "secret", "new": "x"}), ("file/write", {"content": "x"}),
    ]
    for tool_id, arguments in calls:
        result = await run.call(tool_id, path="inside.txt", **arguments)
        assert (result.outcome, result.code) == ("refused", "links")
        assert "secret" not in result.text
    assert "secret" not in (await run.call("file/grep", pattern="the s")).text.partition("\n")[2]
    assert outside.read_text() == "the secret outside\n"
