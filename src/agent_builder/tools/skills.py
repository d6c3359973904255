"""skill/run: gives the model a Skill's instructions, or runs one of its Python scripts in a confined process.

Both ask. What the approval binds: the Skill by the digest of all its files, and the text that is given or the script and its input. A
script sees a private copy of the Skill's folder and nothing else: no network, no workspace, no other program; it can write nowhere.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from agent_builder.capsule.command_runner import CommandBounds, run_confined
from agent_builder.capsule.skill_archive import SCRIPTS, SKILL_MD, SkillRefused, read_skill_md
from agent_builder.capsule.skill_store import SkillDamaged, write_files
from agent_builder.capsule.skills import Skills
from agent_builder.context.inputs import NOTHING_AROUND, Surroundings
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import (
    COMMAND_OUTPUT_BYTES,
    COMMAND_WALL_S,
    DIFF_BYTES,
    NAMES_SHOWN_BYTES,
    SKILL_LINE_BYTES,
    SKILL_SHOWN_BYTES,
)
from agent_builder.sandbox.profiles import SKILL_SCRIPT
from agent_builder.storage.skills import SkillRow
from agent_builder.tools.calls import CapabilityResult, ok, refused
from agent_builder.tools.command_end import ended_result
from agent_builder.tools.cuts import clip, count_lines, counted
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.exec_run import CommandPlace
from agent_builder.tools.private_directory import in_a_thread, private_directory
from agent_builder.tools.visible_text import visible

TOOL_ID = "skill/run"
_BOUNDS = CommandBounds(COMMAND_WALL_S, COMMAND_OUTPUT_BYTES)
_AGAIN = "Call skill_run again if it is still wanted."


def skills_around(active: list[SkillRow]) -> Surroundings:
    """What a plan says of the active Skills."""
    if not active:
        return NOTHING_AROUND
    return Surroundings(frozenset({TOOL_ID}), tuple(clip(f"Skill {row.name}: {row.description}", SKILL_LINE_BYTES) for row in active))


def plan_skill(arguments: dict[str, object], skills: Skills | None, place: CommandPlace) -> Effect | CapabilityResult:
    """Blocking."""
    name, script, start = str(arguments["skill"]), arguments.get("script"), arguments.get("start_line")
    row = skills.find_active(name) if skills is not None else None
    if skills is None or row is None:
        return refused("missing", f"nothing was done: there is no active Skill {clip(visible(name), NAMES_SHOWN_BYTES)}.{_names(skills)}")
    try:
        files = skills.files(row)
    except SkillDamaged:
        return refused("damaged", f"nothing was done: the files of {row.name} are not the ones that were installed; the operator must install it again")
    if script is None:
        if "input" in arguments:
            return refused("arguments", f"nothing was done: input goes to a script. {_scripts(row)}")
        return _plan_reading(skills, row, files, start if isinstance(start, int) else 1)
    chosen = str(script).removeprefix("./").removeprefix(SCRIPTS)
    if chosen not in row.scripts:
        return refused("missing", f"nothing was done: {row.name} has no script {clip(visible(chosen), NAMES_SHOWN_BYTES)}. {_scripts(row)}")
    path = SCRIPTS + chosen
    others = tuple(sorted(files.keys() - {path}))
    return _plan_script(skills, _Chosen(row, chosen, files[path], str(arguments.get("input", "")), others), place)


# instructions ----------------------------------------------------------------------------------------------------


def _plan_reading(skills: Skills, row: SkillRow, files: dict[str, bytes], start: int) -> Effect | CapabilityResult:
    try:
        instructions = read_skill_md(files[SKILL_MD]).instructions
    except SkillRefused as refusal:  # another version of this program took it
        return refused("damaged", f"nothing was done: {refusal.sentence}")
    total = count_lines(instructions.encode())
    if start > total:
        return refused("arguments", f"nothing was done: the instructions have {counted(total, 'line')}")
    lines = [f"{line}\n" for line in instructions.split("\n")[start - 1 : -1]]
    shown, last = _whole_lines(lines, start)
    more = f"; for more call skill_run with start_line {last + 1}" if last < total else ""
    heading = f"instructions of the Skill {row.name} {row.version}, lines {start}-{last} of {total}{more}"
    text = f"{heading}\n{_scripts(row)}\n\n{shown}"
    spelled = "\n".join(map(visible, shown.split("\n")))

    async def act() -> CapabilityResult:
        await asyncio.to_thread(check)
        return ok(text, skill_digest=row.digest, lines=last - start + 1, total_lines=total, truncated=last < total)

    def check() -> None:
        _check_unchanged(skills, row)

    return Effect(f"{row.name} {row.version}\n\ngives these instructions to the model:\n\n{spelled}", check, act, _AGAIN)


def _whole_lines(lines: list[str], start: int) -> tuple[str, int]:
    """As many whole lines as one result shows, and the number of the last; a line that is longer is cut."""
    shown, size = [], 0
    for line in lines:
        size += len(line.encode())
        if size > SKILL_SHOWN_BYTES:
            break
        shown.append(line)
    if not shown:
        return clip(lines[0], SKILL_SHOWN_BYTES), start
    return "".join(shown), start + len(shown) - 1


# scripts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A script as the operator is asked about it. `others`: the Skill's other files, which it may read and import."""

    row: SkillRow
    script: str
    source: bytes
    given: str
    others: tuple[str, ...]


def _plan_script(skills: Skills, chosen: _Chosen, place: CommandPlace) -> Effect | CapabilityResult:
    shown = _shown(chosen)
    if len(shown.encode()) > DIFF_BYTES:
        return refused("too_large", f"nothing was run: the script is too long to be shown to the operator (over {DIFF_BYTES} bytes)")

    def check() -> None:
        _check_unchanged(skills, chosen.row)

    async def act() -> CapabilityResult:
        async with place.turn:
            return await _run(skills, chosen, place)

    return Effect(shown, check, act, _AGAIN, interruptible=True)


def _shown(chosen: _Chosen) -> str:
    row = chosen.row
    source, given = ("\n".join(map(visible, text.split("\n"))) for text in (chosen.source.decode(), chosen.given))
    stdin = f"input ({counted(len(chosen.given.encode()), 'byte')}):\n{given}" if chosen.given else "no input"
    others = clip(", ".join(map(visible, chosen.others)), NAMES_SHOWN_BYTES)
    return (
        f"{row.name} {row.version} · {visible(chosen.script)}\n\n"
        "Python script; confined, in a private copy of the Skill's folder, no network, no workspace, nothing written\n"
        f"it may read and import: {others}\n\n"
        f"{stdin}\n\nscript {SCRIPTS}{visible(chosen.script)}:\n{source}"
    )


async def _run(skills: Skills, chosen: _Chosen, place: CommandPlace) -> CapabilityResult:
    row = chosen.row
    async with AsyncExitStack() as stack:
        files = await asyncio.to_thread(_check_unchanged, skills, row)
        try:
            directory = await stack.enter_async_context(private_directory(place.directory))
            await in_a_thread(write_files, directory, files)
        except OSError as error:
            return CapabilityResult("failed", "io_error", f"nothing was run: its directory cannot be made ({error.strerror})", {})
        end = await run_confined(SKILL_SCRIPT.name, place.worker_env, directory, [SCRIPTS + chosen.script, chosen.given], _BOUNDS, place.clock)
    facts: dict[str, object] = {"skill_digest": row.digest, "script_digest": digest_bytes(chosen.source), "input_bytes": len(chosen.given.encode())}
    return ended_result(end, facts)


# both ------------------------------------------------------------------------------------------------------------


def _check_unchanged(skills: Skills, bound: SkillRow) -> dict[str, bytes]:
    """Blocking: all files of the Skill, if it still is the one that the operator was asked about. Raises EffectStale."""
    now = skills.find_active(bound.name)
    if now is None or now.skill_id != bound.skill_id:
        raise EffectStale(f"{bound.name} {bound.version} is not the active Skill of this name any more")
    try:
        return skills.files(bound)
    except SkillDamaged as damage:
        raise EffectStale(f"the files of {bound.name} are not the ones that were installed") from damage


def _names(skills: Skills | None) -> str:
    names = [row.name for row in skills.active()] if skills is not None else []
    return clip(f" There are: {', '.join(names)}", NAMES_SHOWN_BYTES) if names else ""


def _scripts(row: SkillRow) -> str:
    return clip(f"scripts: {', '.join(map(visible, row.scripts))}" if row.scripts else "It has no scripts.", NAMES_SHOWN_BYTES)
