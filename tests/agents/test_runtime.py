import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.agents.runtime import open_recovered
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, AgentId
from agent_builder.storage.turns import get_turn_by_run, unfinished_turns
from tests.gateway.gateway_app import AGENT as AGENT_PATH
from tests.gateway.gateway_app import open_gateway
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


def unsafe(workspace: Path) -> None:
    workspace.chmod(0o770)


def removed(workspace: Path) -> None:
    shutil.rmtree(workspace)


@pytest.mark.parametrize(("change", "told"), [(unsafe, "chmod go-w ."), (removed, "the workspace cannot be opened")])
async def test_an_agent_whose_workspace_cannot_be_used_can_still_be_read(
    tmp_path: Path, change: Callable[[Path], None], told: str
) -> None:
    """After a restart too, when it is opened anew."""
    async with open_gateway(tmp_path) as gateway:
        conversation = await gateway.conversation()
    change(Checkout(tmp_path.resolve()).workspace(AgentId(SYSTEM_AGENT_ID)))
    async with open_gateway(tmp_path) as gateway:
        assert (await gateway.ok("GET", f"{AGENT_PATH}/sessions/{conversation}"))["turns"] == []
        assert (await gateway.call("GET", f"{AGENT_PATH}/workspace")).status_code == 400
        refused = await gateway.call("POST", f"{AGENT_PATH}/sessions/{conversation}/runs", {"message": "hello"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "instructions_refused")
        assert told in refused.json()["error"]["message"]
