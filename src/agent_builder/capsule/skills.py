"""Skills: what is installed in one Agent. Rows in its database say what counts, folders hold the files.

Installing writes the folder, then the row; removing deletes the row, then the folder. A crash in between leaves a folder without a row,
which goes when the Agent is opened next. `_rows` mirrors the database, so that a call can look without waiting; it changes only behind a
commit.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from agent_builder.capsule.skill_archive import SkillArchive, SkillRefused, read_archive
from agent_builder.capsule.skill_store import read_skill, remove_skill, tidy, write_skill
from agent_builder.protocol.errors import AgentDraining, InvalidRequest, NotFound
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import SKILLS_PER_AGENT
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.storage.database import Database
from agent_builder.storage.faults import storage_faults
from agent_builder.storage.skills import SkillRow, delete_skill, insert_skill, list_skills, set_skill_active

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Skills:
    """One per Agent, made by `open`. Changes wait for each other and are done to their end."""

    def __init__(self, database: Database, root: Path, clock: Clock, rows: list[SkillRow]) -> None:
        self._database = database
        self._root = root
        self._clock = clock
        self._rows = rows
        self._changing = asyncio.Lock()
        self._closed = False

    @staticmethod
    async def open(database: Database, root: Path, clock: Clock) -> "Skills":
        """Makes rows and folders agree. What cannot be tidied stays, with a line in the log: it must not keep the operator from the Agent."""
        rows = await database.read(list_skills)
        try:
            present = await asyncio.to_thread(tidy, root, frozenset(row.digest for row in rows))
        except OSError as error:
            _log.warning("the folders of Skills in %s cannot be tidied: %s", root, error.strerror)
            return Skills(database, root, clock, rows)
        for row in rows:
            if row.digest not in present:
                _log.warning("the files of the Skill %s %s are gone; it is not installed any more", row.name, row.version)
                await database.run(lambda conn, row=row: delete_skill(conn, row.skill_id))  # type: ignore[misc]
        return Skills(database, root, clock, await database.read(list_skills))

    def installed(self) -> list[SkillRow]:
        """By name, the newest version first."""
        return [*self._rows]

    def active(self) -> list[SkillRow]:
        return [row for row in self._rows if row.active]

    def find_active(self, name: str) -> SkillRow | None:
        return next((row for row in self._rows if row.active and row.name == name), None)

    def files(self, row: SkillRow) -> dict[str, bytes]:
        """Blocking: all files as they were installed. Raises SkillDamaged."""
        return read_skill(self._root, row.digest)

    async def install(self, data: bytes) -> SkillRow:
        """Makes this version the active one of its name; the same content again gives the Skill that is there. Raises InvalidRequest
        with the reason, StorageFull."""
        try:
            archive = await asyncio.to_thread(read_archive, data)
        except SkillRefused as refusal:
            raise _refused(refusal) from refusal
        return await self._alone(lambda: self._install(archive))

    async def set_active(self, skill_id: str, active: bool) -> SkillRow:
        """Raises NotFound, StorageFull."""
        return await self._alone(lambda: self._set_active(skill_id, active))

    async def remove(self, skill_id: str) -> None:
        """No other version becomes active. What a Run has copied it keeps until it ends. Raises NotFound, StorageFull."""
        await self._alone(lambda: self._remove(skill_id))

    async def close(self) -> None:
        """When the change that is under way is done; later ones are refused with AgentDraining."""
        async with self._changing:
            self._closed = True

    # Changes

    async def _install(self, archive: SkillArchive) -> SkillRow:
        text = archive.text
        known = next((row for row in self._rows if (row.name, row.version) == (text.name, text.version)), None)
        if known is not None and known.digest != archive.digest:
            raise InvalidRequest(
                f"{text.name} {text.version} is installed with other content; raise the version, or remove that one first.",
                reason="version_exists", name=text.name, version=text.version,
            )
        if known is None and len(self._rows) >= SKILLS_PER_AGENT:
            raise InvalidRequest(f"{SKILLS_PER_AGENT} Skills are installed; remove one first.", reason="too_many_skills")
        with storage_faults():
            await asyncio.to_thread(write_skill, self._root, archive.digest, archive.files)
        if known is not None:
            return await self._set_active(known.skill_id, True)
        row = SkillRow(
            skill_id=new_id(), name=text.name, version=text.version, description=text.description, digest=archive.digest,
            bytes=archive.bytes, entries=len(archive.files), scripts=archive.scripts, active=True, created_at=self._clock.now(),
        )
        await self._commit(lambda conn: insert_skill(conn, row))
        return self._get(row.skill_id)

    async def _set_active(self, skill_id: str, active: bool) -> SkillRow:
        row = self._get(skill_id)
        if row.active != active:
            await self._commit(lambda conn: set_skill_active(conn, skill_id, active))
        return replace(row, active=active)

    async def _remove(self, skill_id: str) -> None:
        row = self._get(skill_id)
        await self._commit(lambda conn: delete_skill(conn, skill_id))
        try:
            await asyncio.to_thread(remove_skill, self._root, row.digest)
        except OSError as error:  # without its row it counts no more, and goes when the Agent is opened next
            _log.warning("the files of the Skill %s %s stay for now: %s", row.name, row.version, error.strerror)

    async def _commit(self, change: Callable[[sqlite3.Connection], None]) -> None:
        def changed(conn: sqlite3.Connection) -> list[SkillRow]:
            change(conn)
            return list_skills(conn)

        self._rows = await self._database.run(changed)

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def carried() -> T:
            async with self._changing:
                if self._closed:
                    raise AgentDraining
                return await work()

        result, cancelled = await to_the_end(carried())
        if cancelled:
            raise asyncio.CancelledError
        return result

    def _get(self, skill_id: str) -> SkillRow:
        row = next((row for row in self._rows if row.skill_id == skill_id), None)
        if row is None:
            raise NotFound
        return row


def _refused(refusal: SkillRefused) -> InvalidRequest:
    more = {name: value for name, value in (("entry", refusal.entry), ("line", refusal.line)) if value is not None}
    return InvalidRequest(f"The Skill was not installed: {refusal.sentence}.", reason=refusal.reason, **more)
