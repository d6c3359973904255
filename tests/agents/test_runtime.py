from pathlib import Path

from agent_builder.agents.runtime import open_recovered
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import AgentId
from agent_builder.storage.turns import get_turn_by_run, unfinished_turns
from tests.support.stored import AGENT, FixedClock, admitted, conversation, open_state


async def test_what_the_start_could_not_end_is_ended_before_the_agent_is_used(tmp_path: Path) -> None:
    """A start on a full disk leaves it, and the Conversation would stay busy."""
    checkout, agent = Checkout(tmp_path), AgentId(AGENT)
    checkout.agent_data(agent).mkdir(parents=True)
    state = await open_state(checkout.agent_data(agent))
    turn = await state.run(lambda conn: admitted(conn, conversation(conn)))
    await state.close()
    opened = await open_recovered(checkout, agent, FixedClock())  # type: ignore[arg-type]
    left, ended = await opened.read(lambda conn: (unfinished_turns(conn), get_turn_by_run(conn, turn.run_id)))
    await opened.close()
    assert left == []
    assert ended is not None
    assert ended.state == "interrupted"
