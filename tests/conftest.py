"""Fixtures that several rooms share. Everything real but the model server; see tests/support."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.gateway import Gateway


@pytest.fixture
def fake() -> Iterator[FakeOllama]:
    """A scripted model server."""
    with FakeOllama() as server:
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[Gateway]:
    """A real Gateway process in front of `fake`, logged in."""
    async with Gateway(tmp_path, fake.port) as running:
        yield running
