import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_builder.agents.agent_files import (
    keep_one_environment,
    make_data_directories,
    make_roots,
    make_runtime_directories,
    remove_agent_files,
    write_manifest,
)
from agent_builder.capsule.remove_tree import remove_tree
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import AgentId
from agent_builder.storage.registry import AgentRow, AgentState
from tests.support.agents import tree
from tests.support.stored import AGENT, NOW

ID = AgentId(AGENT)
ROW = AgentRow(ID, "Name", False, 1, AgentState.CREATING, None, NOW)


@pytest.fixture(params=[0o000, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    earlier = os.umask(request.param)
    yield request.param
    os.umask(earlier)


def test_directories_are_0700_and_files_0600_under_any_umask(checkout: Checkout, umask: int) -> None:
    make_roots(checkout)
    make_data_directories(checkout, ID)
    make_runtime_directories(checkout, ID)
    write_manifest(checkout, ROW)
    modes = {path: path.stat().st_mode & 0o777 for path in checkout.root.rglob("*")}
    assert {path.name for path in modes if path.is_dir()} == {"data", "agents", ".runtime", AGENT, "workspace", "runs", "worker-env"}
    assert {modes[path] for path in modes if path.is_dir()} == {0o700}
    assert {path.name: modes[path] for path in modes if path.is_file()} == {"manifest.json": 0o600}


def test_the_steps_may_be_repeated(checkout: Checkout) -> None:
    for _ in range(2):
        make_roots(checkout)
        make_data_directories(checkout, ID)
        make_runtime_directories(checkout, ID)
        write_manifest(checkout, ROW)
        (checkout.workspace(ID) / "mine.txt").write_text("kept")
    assert [*tree(checkout.agent_data(ID))] == ["manifest.json", "workspace", "workspace/mine.txt"]


def test_the_manifest_says_whose_data_this_is(checkout: Checkout) -> None:
    make_roots(checkout)
    make_data_directories(checkout, ID)
    checkout.manifest(ID).with_name("manifest.json.tmp").write_text("left by a crash")
    write_manifest(checkout, ROW)
    assert json.loads(checkout.manifest(ID).read_text()) == {"format": 1, "agent_id": AGENT, "created_at": NOW.isoformat()}
    assert tree(checkout.agent_data(ID)) == {"manifest.json": 0o600, "workspace": 0o700}


def test_one_environment_is_kept(checkout: Checkout) -> None:
    make_roots(checkout)
    make_runtime_directories(checkout, ID)
    for name in ("1", "2", "2.building", "3"):
        (checkout.agent_runtime(ID) / "worker-env" / name / "worker").mkdir(parents=True)
    keep_one_environment(checkout, ID, 2)
    assert [path.name for path in (checkout.agent_runtime(ID) / "worker-env").iterdir()] == ["2"]


def test_an_agents_files_go_and_nobody_elses(checkout: Checkout) -> None:
    make_roots(checkout)
    other = AgentId("00000000-0000-4000-8000-00000000000b")
    for agent in (ID, other):
        make_data_directories(checkout, agent)
        make_runtime_directories(checkout, agent)
    outside = checkout.root / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (checkout.workspace(ID) / "link").symlink_to(outside, target_is_directory=True)
    before = tree(checkout.agent_data(other))
    remove_agent_files(checkout, ID)
    remove_agent_files(checkout, ID)
    assert not checkout.agent_data(ID).exists()
    assert not checkout.agent_runtime(ID).exists()
    assert (outside / "file").read_text() == "kept"
    assert tree(checkout.agent_data(other)) == before


def test_a_tree_goes_also_where_its_directories_are_sealed(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").touch(mode=0o400)
    for path in (root / "a" / "b", root / "a", root):
        path.chmod(0o000)
    script = "import sys; from pathlib import Path; from agent_builder.capsule.remove_tree import remove_tree; remove_tree(Path(sys.argv[1]))"
    run_unprivileged(script, root)
    assert not root.exists()


def run_unprivileged(script: str, root: Path) -> None:
    """As somebody whom permission bits stop: root without its capabilities."""
    command = [sys.executable, "-c", script, str(root)]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    source = Path(__file__).parents[2] / "src"
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(source)})


def test_a_link_in_place_of_a_tree_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "absent")
    assert [path.name for path in tmp_path.iterdir()] == ["real"]
