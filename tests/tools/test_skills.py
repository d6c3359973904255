import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.capsule.command_runner import CommandBounds
from agent_builder.capsule.skills import Skills
from agent_builder.protocol.errors import PermissionStale
from agent_builder.protocol.events import PermissionRequested
from agent_builder.protocol.limits import (
    COMMAND_MEMORY_BYTES,
    COMMAND_OUTPUT_BYTES,
    DIFF_BYTES,
    SKILL_INPUT_BYTES,
    SKILL_LINE_BYTES,
    SKILL_SHOWN_BYTES,
)
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.sandbox.skill_script import MODULES
from agent_builder.tools import skills as tool
from agent_builder.tools.broker import CapabilityBroker, CapabilityResult
from agent_builder.tools.skills import skills_around
from tests.support.capability import ToolRun, begun, children, make_run, put
from tests.support.clock import MovableClock
from tests.support.skills import HELLO, INSTRUCTIONS, archive
from tests.support.stored import open_state

ASKED = "permission.requested"


class SkillRun:
    """A Run of an Agent with Skills."""

    def __init__(self, run: ToolRun, skills: Skills) -> None:
        self.run, self.skills = run, skills

    async def call(self, **arguments: object) -> CapabilityResult:
        return await self.run.call("skill/run", **{"skill": "greet", **arguments})

    async def script(self, source: str, **arguments: object) -> CapabilityResult:
        """Installs and runs one script."""
        for row in self.skills.installed():
            await self.skills.remove(row.skill_id)
        await self.skills.install(archive({"s.py": source}))
        result = await self.call(script="s.py", **arguments)
        assert self.left_over() == []
        return result

    def left_over(self) -> list[str]:
        """The private directories of commands."""
        return [name for name in self.run.left_over() if name.endswith(".command")]

    def asked(self) -> PermissionRequested:
        request = self.run.last(PermissionRequested)
        assert isinstance(request, PermissionRequested)
        return request


@pytest.fixture
async def skill_run(tmp_path: Path, worker_env: Path) -> AsyncIterator[SkillRun]:
    run = make_run(tmp_path / "agent", worker_env)
    database = await open_state(tmp_path)
    skills = await Skills.open(database, tmp_path / "skills", MovableClock())
    run.broker = CapabilityBroker(run.permissions, run.clock, worker_env, skills=skills)
    yield SkillRun(run, skills)
    await database.close()


async def test_the_instructions_come_after_the_approval_and_nothing_before(skill_run: SkillRun) -> None:
    await skill_run.skills.install(archive())
    skill_run.run.decision = "deny"
    denied = await skill_run.call()
    assert (denied.outcome, INSTRUCTIONS in denied.text) == ("denied", False)
    assert "Run scripts/hello.py with a name as input." in skill_run.asked().preview
    again = make_again(skill_run)
    result = await again.call()
    assert (result.outcome, result.receipt["total_lines"], result.receipt["truncated"]) == ("ok", 3, False)
    assert result.text == f"instructions of the Skill greet 1.0.0, lines 1-3 of 3\nscripts: hello.py\n\n{INSTRUCTIONS}"


def make_again(one: SkillRun) -> SkillRun:
    run = make_run(one.run.workspace.parent, one.run.worker_env)
    run.broker = CapabilityBroker(run.permissions, run.clock, one.run.worker_env, skills=one.skills)
    return SkillRun(run, one.skills)


async def test_long_instructions_are_read_part_by_part_and_nothing_is_lost(skill_run: SkillRun) -> None:
    body = "".join(f"line {number} {'x' * 80}\n" for number in range(1, 250))
    await skill_run.skills.install(archive(body=body))
    start, read = 1, ""
    while True:
        result = await skill_run.call(**({"start_line": start} if start > 1 else {}))
        heading, _, _, shown = result.text.split("\n", 3)
        assert len(shown.encode()) <= SKILL_SHOWN_BYTES
        read += shown
        if not result.receipt["truncated"]:
            break
        start = int(heading.rpartition(" ")[2])
    assert read == body
    assert (await skill_run.call(start_line=250)).code == "arguments"


async def test_a_single_line_that_is_too_long_is_cut(skill_run: SkillRun) -> None:
    await skill_run.skills.install(archive(body="中" * SKILL_SHOWN_BYTES + "\nlast\n"))
    first = await skill_run.call()
    assert "lines 1-1 of 2; for more call skill_run with start_line 2" in first.text
    assert (await skill_run.call(start_line=2)).text.endswith("last\n")


async def test_a_script_gets_its_input_and_its_end_is_true(skill_run: SkillRun) -> None:
    await skill_run.skills.install(archive({"hello.py": HELLO, "fail.py": "import sys\nsys.exit(3)\n"}))
    result = await skill_run.call(script="hello.py", input="Ada\n", start_line=1)  # models fill in what they need not
    assert (result.outcome, result.text, result.receipt["exit_code"]) == ("ok", "exit code 0\nHello, Ada\n", 0)
    assert {"skill_digest", "script_digest", "output_digest"} <= set(result.receipt)
    failed = await skill_run.call(script="scripts/fail.py")
    assert (failed.outcome, failed.code, failed.text) == ("failed", "exit_code", "exit code 3, no output")
    assert skill_run.left_over() == []


async def test_the_operator_sees_script_input_and_what_confines_it(skill_run: SkillRun) -> None:
    await skill_run.script("print('a\u202eb')\n", input="in\u200bput")
    shown = skill_run.run.permissions.get(skill_run.asked().permission_id).diff
    assert shown is not None
    assert shown.startswith("greet 1.0.0 · s.py\n")
    for part in ("no network", "it may read and import: SKILL.md\n", "input (8 bytes):\nin⟦U+200B⟧put", "print('a⟦U+202E⟧b')"):
        assert part in shown


async def test_a_denied_script_does_not_run(skill_run: SkillRun) -> None:
    skill_run.run.decision = "deny"
    assert (await skill_run.script(HELLO)).outcome == "denied"


async def test_a_script_that_cannot_be_shown_whole_is_not_run(skill_run: SkillRun) -> None:
    result = await skill_run.script("#" * DIFF_BYTES)
    assert (result.outcome, result.code, ASKED in skill_run.run.types()) == ("refused", "too_large", False)


@pytest.mark.parametrize("name", ["nope", "greet2", "../greet", ""])
async def test_an_unknown_skill_is_answered_with_the_names_there_are(skill_run: SkillRun, name: str) -> None:
    await skill_run.skills.install(archive())
    result = await skill_run.call(skill=name)
    assert (result.outcome, result.code, "There are: greet" in result.text) == ("refused", "missing", True)


@pytest.mark.parametrize("script", ["nope.py", "../SKILL.md", "SKILL.md", "/etc/passwd", "lib/deep.py", ""])
async def test_only_scripts_of_the_skill_run(skill_run: SkillRun, script: str) -> None:
    await skill_run.skills.install(archive(more={"scripts/lib/deep.py": "x = 1\n"}))
    result = await skill_run.call(script=script)
    assert (result.outcome, result.code, "scripts: hello.py" in result.text) == ("refused", "missing", True)


async def test_arguments_that_do_not_go_together_are_refused(skill_run: SkillRun) -> None:
    await skill_run.skills.install(archive())
    for arguments in ({"input": "x"}, {"script": "hello.py", "input": "x" * (SKILL_INPUT_BYTES + 1)}):
        assert (await skill_run.call(**arguments)).code == "arguments"
    assert (await skill_run.call(script="hello.py", input="x" * SKILL_INPUT_BYTES)).outcome == "ok"


@pytest.mark.parametrize("change", ["removed", "switched off", "another version", "damaged"])
async def test_what_changed_after_the_question_is_not_done(skill_run: SkillRun, change: str, tmp_path: Path) -> None:
    row = await skill_run.skills.install(archive({"touch.py": "print('ran')\n"}))
    changing: list[asyncio.Task[object]] = []

    async def decided_late(request: PermissionRequested) -> None:
        if change == "removed":
            await skill_run.skills.remove(row.skill_id)
        elif change == "switched off":
            await skill_run.skills.set_active(row.skill_id, False)
        elif change == "another version":
            await skill_run.skills.install(archive(version="2.0.0"))
        else:
            target = tmp_path / "skills" / row.digest / "scripts/touch.py"
            target.chmod(0o600)
            target.write_text("print('other')\n")
        try:
            await skill_run.run.permissions.decide(request.permission_id, "approve")
        except PermissionStale as stale:
            skill_run.run.faults.append(stale)

    skill_run.run.decision = ""
    real = skill_run.run.emit

    async def emit(*payloads: object) -> None:
        await real(*payloads)  # type: ignore[arg-type]
        changing.extend(asyncio.create_task(decided_late(one)) for one in payloads if isinstance(one, PermissionRequested))

    object.__setattr__(skill_run.run.scope, "emit", emit)
    result = await skill_run.call(script="touch.py")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert "ran" not in result.text
    assert len(skill_run.run.faults) == 1
    assert skill_run.left_over() == []


async def test_modules_that_are_written_in_c_are_there_and_the_skill_s_own_too(skill_run: SkillRun) -> None:
    imports = "\n".join(f"import {name}" for name in MODULES)
    source = f"{imports}\nimport logging, ipaddress, html, lib.own\nprint(hashlib.sha256(b'x').hexdigest()[:8], lib.own.WHAT, __name__)\n"
    await skill_run.skills.install(archive({"s.py": source}, more={"scripts/lib/own.py": "WHAT = 'own'\n"}))
    result = await skill_run.call(script="s.py")
    assert result.text == "exit code 0\n2d711642 own __main__\n"


async def test_a_script_reads_the_files_of_its_skill_and_its_working_directory_is_their_folder(skill_run: SkillRun) -> None:
    await skill_run.skills.install(archive({"s.py": "print(open('references/a.txt').read(), __file__)\n"}, more={"references/a.txt": "data é"}))
    assert (await skill_run.call(script="s.py")).text == "exit code 0\ndata é scripts/s.py\n"


async def test_a_fault_is_told_with_its_line_and_no_frame_of_ours(skill_run: SkillRun) -> None:
    result = await skill_run.script("def f():\n    raise ValueError('no')\nf()\n")
    assert (result.code, result.receipt["exit_code"]) == ("exit_code", 1)
    assert 'File "scripts/s.py", line 2, in f' in result.text
    assert "agent_builder" not in result.text
    assert "SyntaxError" in (await make_again(skill_run).script("def f(:\n")).text


REACHES = {
    "network": "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nprint('got', c.socket(2, 1, 0), ctypes.get_errno())",
    "fork": "import os\ntry:\n    os.fork()\n    print('got')\nexcept OSError as e:\n    print('refused', e.errno)",
    "program": "import os\ntry:\n    os.execv('/bin/true', ['true'])\nexcept OSError as e:\n    print('refused', e.errno)",
    "writing": "try:\n    open('new.txt', 'w')\n    print('got')\nexcept OSError as e:\n    print('refused', e.errno)",
    "passwd": "try:\n    print('got', open('/etc/passwd').read())\nexcept OSError as e:\n    print('refused', e.errno)",
    "beside": "import os\ntry:\n    print('got', os.listdir('..'))\nexcept OSError as e:\n    print('refused', e.errno)",
}


@pytest.mark.parametrize("what", REACHES)
async def test_a_script_reaches_nothing(skill_run: SkillRun, what: str) -> None:
    result = await skill_run.script(REACHES[what] + "\n")
    assert result.outcome == "ok"
    assert ("refused" in result.text) or ("got -1 1" in result.text)
    assert "root:" not in result.text


async def test_a_script_sees_neither_workspace_nor_environment_nor_this_program(skill_run: SkillRun) -> None:
    secret = put(skill_run.run.workspace, "secret.txt", "secret")
    source = (
        f"import os, sys\ntry:\n    print(open({str(secret)!r}).read())\nexcept OSError as e:\n    print('refused', e.errno)\n"
        "print(sorted(os.environ), [m for m in sys.modules if 'agent_builder' in m], os.listdir('.'))\n"
    )
    result = await skill_run.script(source)
    assert result.text.startswith("exit code 0\nrefused 13\n['LC_ALL', 'PWD'] []")


async def test_an_endless_script_is_killed_when_its_time_is_over(skill_run: SkillRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "_BOUNDS", CommandBounds(0.2, COMMAND_OUTPUT_BYTES))
    result = await skill_run.script("while True:\n    pass\n")
    assert (result.outcome, result.code, result.receipt["signal"]) == ("failed", "wall_clock", 9)
    assert result.text.startswith("stopped: it ran longer than")


async def test_too_much_output_and_memory_are_stopped_and_said(skill_run: SkillRun) -> None:
    loud = await skill_run.script("while True:\n    print('x' * 1000)\n")
    assert (loud.code, loud.text.startswith(f"stopped: it wrote more than {COMMAND_OUTPUT_BYTES} bytes")) == ("output", True)
    large = await make_again(skill_run).script(f"bytearray({COMMAND_MEMORY_BYTES})\n")
    assert (large.code, "MemoryError" in large.text) == ("exit_code", True)


async def test_a_cancelled_script_is_gone_with_its_directory(skill_run: SkillRun) -> None:
    await skill_run.skills.install(archive({"s.py": "while True:\n    pass\n"}))
    before = children()
    calling = await begun(skill_run.call(script="s.py"))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert children() == before
    assert skill_run.left_over() == []


async def test_a_run_without_skills_has_none(command_run: ToolRun) -> None:
    assert (await command_run.call("skill/run", skill="greet")).code == "missing"


async def test_the_plan_is_told_of_active_skills_only_and_in_bounds(skill_run: SkillRun) -> None:
    assert skills_around([]).tools == frozenset()
    await skill_run.skills.install(archive(name="long", description="d" * 1000))
    row = await skill_run.skills.install(archive())
    around = skills_around(skill_run.skills.active())
    assert (around.tools, around.lines[0]) == (frozenset({"skill/run"}), "Skill greet: Greets people by name.")
    assert len(around.lines[1].encode()) == SKILL_LINE_BYTES
    await skill_run.skills.set_active(row.skill_id, False)
    assert [line[:10] for line in skills_around(skill_run.skills.active()).lines] == ["Skill long"]


def test_the_tool_is_optional_and_asks() -> None:
    spec = CATALOG.get("skill/run")
    assert spec is not None
    assert (spec.optional, spec.policy, len(spec.description.split()) <= 25) == (True, "ask", True)
