"""Skills in one Agent: rows and folders, and that they agree after a kill at any step."""

import asyncio
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_builder.capsule import skills as module
from agent_builder.capsule.skill_archive import read_archive
from agent_builder.capsule.skill_store import SkillDamaged, read_skill, remove_skill, write_skill
from agent_builder.capsule.skills import Skills
from agent_builder.protocol.errors import AgentDraining, InvalidRequest, NotFound, StorageFull
from agent_builder.protocol.limits import SKILLS_PER_AGENT
from agent_builder.storage.database import Database
from agent_builder.storage.skills import SkillRow, delete_skill
from tests.support.clock import MovableClock
from tests.support.skills import archive, packed, skill_md
from tests.support.stored import open_state


@dataclass
class Place:
    database: Database
    root: Path
    skills: Skills

    async def reopened(self) -> Skills:
        return await Skills.open(self.database, self.root, MovableClock())

    def folders(self) -> list[str]:
        return sorted(os.listdir(self.root)) if self.root.exists() else []


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    database, root = await open_state(tmp_path), tmp_path / "skills"
    yield Place(database, root, await Skills.open(database, root, MovableClock()))
    await database.close()


def shown(rows: list[SkillRow]) -> list[tuple[str, str, bool]]:
    return [(row.name, row.version, row.active) for row in rows]


async def test_a_version_that_is_installed_becomes_the_active_one_of_its_name(place: Place) -> None:
    await place.skills.install(archive())
    await place.skills.install(archive(version="2.0.0"))
    await place.skills.install(archive(name="other"))
    assert shown(place.skills.installed()) == [("greet", "2.0.0", True), ("greet", "1.0.0", False), ("other", "1.0.0", True)]
    assert shown((await place.reopened()).installed()) == shown(place.skills.installed())


async def test_files_are_sealed_and_lie_under_their_digest(place: Place) -> None:
    row = await place.skills.install(archive(more={"references/a.txt": "data"}))
    assert place.folders() == [row.digest]
    for folder, _, names in os.walk(place.root / row.digest):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o500
        assert all(stat.S_IMODE(os.stat(Path(folder, name)).st_mode) == 0o400 for name in names)
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700
    assert sorted(place.skills.files(row)) == ["SKILL.md", "references/a.txt", "scripts/hello.py"]
    assert (row.entries, row.bytes, row.scripts) == (3, sum(map(len, place.skills.files(row).values())), ("hello.py",))


async def test_the_same_content_again_gives_the_same_skill_and_makes_it_active(place: Place) -> None:
    first = await place.skills.install(archive())
    await place.skills.install(archive(version="2.0.0"))
    again = await place.skills.install(archive())
    assert (again, [row.version for row in place.skills.active()]) == (first, ["1.0.0"])


async def test_the_same_version_with_other_content_is_refused(place: Place) -> None:
    await place.skills.install(archive())
    before = place.folders()
    with pytest.raises(InvalidRequest) as refused:
        await place.skills.install(archive(body="Other.\n"))
    assert refused.value.details["reason"] == "version_exists"
    assert (shown(place.skills.installed()), place.folders()) == ([("greet", "1.0.0", True)], before)


async def test_another_version_or_none_can_be_made_active(place: Place) -> None:
    first = await place.skills.install(archive())
    second = await place.skills.install(archive(version="2.0.0"))
    assert (await place.skills.set_active(first.skill_id, True)).active
    assert [row.version for row in place.skills.active()] == ["1.0.0"]
    assert not (await place.skills.set_active(first.skill_id, False)).active
    assert place.skills.active() == []
    assert place.skills.find_active("greet") is None
    with pytest.raises(NotFound):
        await place.skills.set_active(first.skill_id[:-1] + "0" if first.skill_id[-1] != "0" else second.skill_id[:-1] + "1", True)


async def test_removing_takes_row_and_folder_and_makes_no_other_version_active(place: Place) -> None:
    first = await place.skills.install(archive())
    second = await place.skills.install(archive(version="2.0.0"))
    await place.skills.remove(second.skill_id)
    assert (shown(place.skills.installed()), place.folders()) == ([("greet", "1.0.0", False)], [first.digest])
    with pytest.raises(NotFound):
        await place.skills.remove(second.skill_id)


async def test_their_number_is_bounded(place: Place) -> None:
    for number in range(SKILLS_PER_AGENT):
        await place.skills.install(archive(version=f"{number}"))
    with pytest.raises(InvalidRequest) as refused:
        await place.skills.install(archive(version="more"))
    assert refused.value.details["reason"] == "too_many_skills"
    assert len(place.folders()) == SKILLS_PER_AGENT
    assert (await place.skills.install(archive(version="3"))).active


async def test_a_refused_archive_leaves_nothing_and_names_reason_entry_and_line(place: Place) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await place.skills.install(packed({"SKILL.md": skill_md(name="Bad")}))
    assert refused.value.details == {"reason": "bad_name", "entry": "SKILL.md", "line": 2}
    assert place.folders() == []


async def test_two_installations_at_once_make_one_active(place: Place) -> None:
    await asyncio.gather(*(place.skills.install(archive(version=f"{number}")) for number in range(4)))
    assert len(place.skills.active()) == 1
    assert len(place.skills.installed()) == 4


async def test_a_full_disk_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(root: Path, digest: str, files: dict[str, bytes]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_skill", full)
    with pytest.raises(StorageFull):
        await place.skills.install(archive())
    assert place.skills.installed() == []


async def test_an_installation_under_way_is_whole_before_the_skills_close_and_later_ones_are_refused(place: Place) -> None:
    installing = asyncio.create_task(place.skills.install(archive()))
    while not place.skills._changing.locked():
        await asyncio.sleep(0)
    await place.skills.close()
    assert place.folders() == [row.digest for row in place.skills.installed()] == [(await installing).digest]
    with pytest.raises(AgentDraining):
        await place.skills.install(archive(version="2.0.0"))


async def test_a_cancelled_installation_is_done_to_its_end(place: Place) -> None:
    installing = asyncio.create_task(place.skills.install(archive()))
    while not place.skills._changing.locked():
        await asyncio.sleep(0)
    installing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await installing
    assert len(place.skills.active()) == len(place.folders()) == 1


@pytest.mark.parametrize("change", ["content", "more", "fewer", "link", "gone"])
async def test_changed_files_are_noticed(place: Place, tmp_path: Path, change: str) -> None:
    row = await place.skills.install(archive())
    folder, script = place.root / row.digest, place.root / row.digest / "scripts/hello.py"
    for path in (folder, folder / "scripts", script):
        path.chmod(0o700)
    if change == "content":
        script.write_text("print('other')\n")
    elif change == "more":
        (folder / "more").write_text("x")
    elif change == "gone":
        shutil.rmtree(folder)
    else:
        original = tmp_path / "same.py"
        original.write_bytes(script.read_bytes())
        script.unlink()
        if change == "link":
            script.symlink_to(original)
    with pytest.raises(SkillDamaged):
        place.skills.files(row)
    assert (await place.skills.install(archive())).skill_id == row.skill_id
    assert "scripts/hello.py" in place.skills.files(row)


async def test_folders_without_a_row_go_and_a_row_without_a_folder_too(place: Place) -> None:
    kept, lost = await place.skills.install(archive()), await place.skills.install(archive(name="other"))
    remove_skill(place.root, lost.digest)
    (place.root / ".new-x").mkdir()
    (place.root / "stray").symlink_to("/etc")
    (place.root / "file").write_text("x")
    again = await place.reopened()
    assert (again.installed(), place.folders()) == ([kept], [kept.digest])


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Does `work` in a child that is killed before its file operation number `step`; whether it came so far."""
    child = os.fork()
    if child == 0:
        left = [step]

        def count(event: str, arguments: tuple[object, ...]) -> None:
            if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod"):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


async def test_a_kill_at_any_step_of_an_installation_leaves_no_half_of_it(place: Place) -> None:
    """The row is written after the folder: while that is written there is none."""
    kept = await place.skills.install(archive(name="other"))
    made = read_archive(archive(more={"references/a.txt": "data"}))
    step = 1
    while killed_at(step, lambda: write_skill(place.root, made.digest, made.files)):
        assert (await place.reopened()).installed() == [kept]
        assert place.folders() == [kept.digest]
        step += 1
    assert step > 15
    assert read_skill(place.root, made.digest) == made.files


async def test_a_kill_at_any_step_of_a_removal_leaves_no_half_of_it(place: Place) -> None:
    kept = await place.skills.install(archive(name="other"))
    step = 1
    while True:
        row = await place.skills.install(archive())
        await place.database.run(lambda conn, row=row: delete_skill(conn, row.skill_id))  # type: ignore[misc]
        killed = killed_at(step, lambda row=row: remove_skill(place.root, row.digest))  # type: ignore[misc]
        place.skills = await place.reopened()
        assert (place.skills.installed(), place.folders()) == ([kept], [kept.digest])
        if not killed:
            break
        step += 1
    assert step > 5
