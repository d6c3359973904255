from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.protocol.checkout import Checkout
from tests.support.agents import Opened, opened


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
async def agents(checkout: Checkout) -> AsyncIterator[Opened]:
    """A started registry with its system Agent."""
    async with opened(checkout) as everything:
        yield everything
