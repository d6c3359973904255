"""A hostile Worker sends any tool id with any arguments: each call is answered, and without an approval nothing changes."""

import asyncio
import os
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_builder.protocol.events import ToolCallFinished
from agent_builder.protocol.tool_catalog import CATALOG
from tests.support.capability import ToolRun, make_run, put

TEXTS = st.one_of(
    st.sampled_from(["a.md", "d", "d/b.py", "../x", "/etc/passwd", ".", "", ".git", "a.md/x", "**", "[", "one", "x", "true", "runtime-compile", "d/new.txt"]),
    st.text(max_size=30), st.text(alphabet="./*?[]\\\0\n", max_size=12), st.text(min_size=1, max_size=4).map(lambda text: text * 2000),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5,
)
NAMES = st.sampled_from(["path", "pattern", "old", "new", "content", "command", "regex", "start_line", "max_lines", "text", "extra"])
IDS = st.one_of(st.sampled_from([spec.id for spec in CATALOG.specs]), st.text(max_size=20))


@st.composite
def likely(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """Arguments that mostly fit the tool's schema."""
    spec = draw(st.sampled_from(CATALOG.specs))
    kinds = {"string": TEXTS, "integer": st.integers(-1, 300), "boolean": st.booleans()}
    return spec.id, {name: draw(kinds[str(rule["type"])]) for name, rule in spec.properties.items() if name in spec.required or draw(st.booleans())}


CALLS = st.one_of(likely(), st.tuples(IDS, st.dictionaries(NAMES, VALUES, max_size=5)))


def picture(workspace: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(workspace)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(workspace.rglob("*"))
    }


async def answered(run: ToolRun, tool_id: str, arguments: dict[str, object]) -> None:
    result = await run.call(tool_id, **arguments)
    finished = [event for event in run.events if isinstance(event, ToolCallFinished)]
    assert finished[-1].outcome == result.outcome
    assert result.outcome in ("ok", "refused", "denied")
    result.text.encode()
    for event in run.events:
        event.model_dump_json()
    run.events.clear()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(CALLS, min_size=1, max_size=4))
def test_any_call_is_answered_and_nothing_changes(tmp_path: Path, calls: list[tuple[str, dict[str, object]]]) -> None:
    run = make_run(tmp_path)
    run.decision = "deny"
    if not os.listdir(run.workspace):
        put(run.workspace, "a.md", "one\ntwo\n")
        put(run.workspace, "d/b.py", "x = 1\n")
    before = picture(run.workspace)

    async def play() -> None:
        for tool_id, arguments in calls:
            await answered(run, tool_id, arguments)

    asyncio.run(play())
    assert picture(run.workspace) == before
    assert not list(run.run_root.parent.glob("*.command"))
