from pathlib import Path

import pytest

from tests.support.capability import ToolRun, make_run
from tests.support.confined import worker_env
from tests.support.documents import library

__all__ = ["library", "worker_env"]


@pytest.fixture
def run(tmp_path: Path) -> ToolRun:
    """A Run whose operator approves; commands need `command_run`."""
    return make_run(tmp_path)


@pytest.fixture
def command_run(tmp_path: Path, worker_env: Path) -> ToolRun:
    return make_run(tmp_path, worker_env)


@pytest.fixture
def document_run(tmp_path: Path, worker_env: Path, library: Path) -> ToolRun:
    """A Run of an Agent whose research environment is installed."""
    return make_run(tmp_path, worker_env, library)
