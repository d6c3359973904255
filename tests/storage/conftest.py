from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.storage.database import Database
from tests.support.stored import open_state


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[Database]:
    """An Agent's empty database."""
    database = await open_state(tmp_path)
    yield database
    await database.close()
