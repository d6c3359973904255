from pathlib import Path

from agent_builder.agents.orphans import KeptConversations, kept_conversations, orphans
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID
from agent_builder.storage.conversations import create_conversation
from agent_builder.storage.delegations import ChildMark, Place, create_child_conversation
from tests.support.agents import opened
from tests.support.stored import NOW


def kept(*ids: str, **children: Place) -> KeptConversations:
    return KeptConversations(frozenset({*ids, *children}), tuple(ChildMark(one, parent) for one, parent in children.items()))


def test_a_child_goes_with_its_parent_and_stays_where_that_is_not_known() -> None:
    own = kept(a=Place("alice", "there"), b=Place("alice", "gone"), c=Place("nobody", "gone"), d=Place("damaged", "there"))
    everything = {"bob": own, "alice": kept("there")}
    assert orphans({"bob", "alice", "damaged"}, everything) == {"bob": ["b", "c"]}
    assert orphans({"alice"}, {"alice": kept("there")}) == {}


async def test_the_start_removes_the_children_of_conversations_that_are_gone(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    async with opened(checkout) as agents:
        bob = await agents.registry.create("Bob")
        system, other = await agents.registry.runtime(SYSTEM_AGENT_ID), await agents.registry.runtime(bob.agent_id)
        await system.database.run(lambda conn: create_conversation(conn, "there", None, NOW))
        for child, parent in (("kept", "there"), ("orphan", "gone")):
            await other.database.run(
                lambda conn, child=child, parent=parent: create_child_conversation(conn, child, "x", NOW, Place(SYSTEM_AGENT_ID, parent), "task")
            )
    async with opened(checkout) as agents:
        assert [note for note in agents.converged.notes if "child" in note] == [
            f"Removed 1 child Conversations of Agent {bob.agent_id}, whose parents are gone."
        ]
        other = await agents.registry.runtime(bob.agent_id)
        assert (await other.database.read(kept_conversations)).ids == {"kept"}


async def test_an_agent_that_cannot_be_read_keeps_the_children_it_asked_for(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    async with opened(checkout) as agents:
        alice, bob = await agents.registry.create("Alice"), await agents.registry.create("Bob")
        other = await agents.registry.runtime(bob.agent_id)
        await other.database.run(lambda conn: create_child_conversation(conn, "child", "x", NOW, Place(alice.agent_id, "gone?"), "task"))
    checkout.state_db(alice.agent_id).write_bytes(b"damaged" * 999)
    async with opened(checkout) as agents:
        assert alice.agent_id in agents.converged.damaged
        other = await agents.registry.runtime(bob.agent_id)
        assert (await other.database.read(kept_conversations)).ids == {"child"}
