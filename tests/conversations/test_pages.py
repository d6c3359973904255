import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.conversations.pages import PageCursors, Pages
from agent_builder.protocol.errors import InvalidSessionCursor, NotFound
from agent_builder.storage.conversations import branch_conversation, get_conversation, rename_conversation
from agent_builder.storage.database import Database
from tests.support.stored import AGENT, NOW, completed, conversation, ended, open_state

KEY = bytes(range(32))
CURSORS = PageCursors(AGENT, KEY)
POSITIONS = st.integers(min_value=1, max_value=2**40)


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_state(tmp_path)
    yield database
    await database.close()


async def filled(state: Database, count: int) -> str:
    def fill(conn):
        made = conversation(conn)
        for number in range(count):
            ended(conn, made, "cancelled", str(number))
        return made

    return await state.run(fill)


async def test_cursors_lead_through_all_turns(state: Database) -> None:
    made = await filled(state, 70)
    pages = Pages(state, AGENT, KEY)
    page = await pages.read(made, None)
    seen = [[turn.user_text for turn in page.turns]]
    while page.next_before_cursor is not None:
        page = await pages.read(made, page.next_before_cursor)
        seen.append([turn.user_text for turn in page.turns])
    assert seen == [[str(n) for n in part] for part in (range(38, 70), range(6, 38), range(6))]
    assert page.conversation == await state.read(lambda conn: get_conversation(conn, made))


async def test_a_page_that_holds_everything_has_no_cursor(state: Database) -> None:
    pages = Pages(state, AGENT, KEY)
    assert (await pages.read(await filled(state, 32), None)).next_before_cursor is None
    assert (await pages.read(await filled(state, 33), None)).next_before_cursor is not None


async def test_a_cursor_outlives_new_turns_and_still_gives_the_same_page(state: Database) -> None:
    made = await filled(state, 40)
    pages = Pages(state, AGENT, KEY)
    cursor = (await pages.read(made, None)).next_before_cursor
    before = await pages.read(made, cursor)
    await state.run(lambda conn: completed(conn, made))
    after = await pages.read(made, cursor)
    assert after.turns == before.turns


async def test_a_cursor_from_before_a_rename_a_restart_or_elsewhere_is_refused(state: Database) -> None:
    made, other = await filled(state, 40), await filled(state, 40)
    pages = Pages(state, AGENT, KEY)
    cursor = (await pages.read(made, None)).next_before_cursor
    assert cursor is not None
    await pages.read(made, cursor)
    for wrong in (Pages(state, AGENT, KEY[::-1]), Pages(state, AGENT[::-1], KEY)):
        with pytest.raises(InvalidSessionCursor):
            await wrong.read(made, cursor)
    with pytest.raises(InvalidSessionCursor):
        await pages.read(other, cursor)
    await state.run(lambda conn: rename_conversation(conn, made, "New", NOW))
    with pytest.raises(InvalidSessionCursor):
        await pages.read(made, cursor)
    assert (await pages.read(made, None)).next_before_cursor not in (None, cursor)


async def test_a_cursor_of_the_source_is_worth_nothing_in_its_branch(state: Database) -> None:
    def fill(conn):
        made = conversation(conn)
        for _ in range(33):
            completed(conn, made)
        branch_conversation(conn, made, "branch", "B", NOW)
        return made

    made = await state.run(fill)
    pages = Pages(state, AGENT, KEY)
    cursor = (await pages.read(made, None)).next_before_cursor
    with pytest.raises(InvalidSessionCursor):
        await pages.read("branch", cursor)
    assert [turn.conversation_id for turn in (await pages.read("branch", None)).turns] == ["branch"] * 32


async def test_an_unknown_conversation_has_no_page(state: Database) -> None:
    with pytest.raises(NotFound):
        await Pages(state, AGENT, KEY).read("none", None)


@given(POSITIONS)
def test_a_cursor_gives_its_position_back(position: int) -> None:
    assert CURSORS.position(CURSORS.make("c", 1, position), "c", 1) == position


@given(POSITIONS, st.data())
def test_no_changed_cursor_is_accepted(position: int, data: st.DataObject) -> None:
    cursor = CURSORS.make("c", 1, position)
    at = data.draw(st.integers(0, len(cursor) - 1))
    char = data.draw(st.characters(exclude_characters=cursor[at]))
    length = data.draw(st.integers(0, len(cursor) - 1))
    for changed in (cursor[:at] + char + cursor[at + 1 :], cursor[:length], cursor + char, cursor + "=", f" {cursor}"):
        with pytest.raises(InvalidSessionCursor):
            CURSORS.position(changed, "c", 1)


@given(st.text(max_size=200))
def test_no_invented_cursor_is_accepted(text: str) -> None:
    for invented in (text, f"turn-page-v2.{text}", "turn-page-v2." + base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()):
        with pytest.raises(InvalidSessionCursor):
            CURSORS.position(invented, "c", 1)


@given(POSITIONS, st.sampled_from([("c", 2), ("d", 1), ("c\n1", 1), ("", 1)]))
def test_a_cursor_is_bound_to_conversation_and_revision(position: int, other: tuple[str, int]) -> None:
    with pytest.raises(InvalidSessionCursor):
        CURSORS.position(CURSORS.make("c", 1, position), *other)


def test_a_cursor_tells_no_position_of_another_key() -> None:
    one, two = CURSORS.make("c", 1, 5), PageCursors(AGENT, KEY[::-1]).make("c", 1, 5)
    assert one != two
    assert one.startswith("turn-page-v2.")
