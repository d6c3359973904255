"""One Gateway process for a whole file, for tests that do not disturb each other. Such a file says

    pytestmark = pytest.mark.asyncio(loop_scope="module")

and may define PROFILE, ENTRIES (more catalog entries) for its catalog.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.fake_ollama import FakeOllama
from tests.support.gateway import Gateway, catalog


@pytest.fixture(scope="module")
def shared_fake() -> Iterator[FakeOllama]:
    with FakeOllama() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_fake: FakeOllama) -> AsyncIterator[Gateway]:
    """Logged in, in front of `shared_fake`."""
    entries = getattr(request.module, "ENTRIES", "").replace("$PORT", str(shared_fake.port))
    text = catalog(shared_fake.port, getattr(request.module, "PROFILE", "")) + entries
    async with Gateway(tmp_path_factory.mktemp("shared"), shared_fake.port, catalog_text=text) as running:
        yield running


@pytest.fixture(autouse=True)
def _fresh_script(request: pytest.FixtureRequest) -> None:
    """No test is answered with what an earlier one has left."""
    if "shared_fake" in request.fixturenames:
        request.getfixturevalue("shared_fake").forget_script()
