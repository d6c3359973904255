"""Presence, publication and removal of a research environment, and kill -9 before each of their steps."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_builder.capsule.research_env import ResearchEnv, converge, installed, publish, recorded, remove, staging
from agent_builder.capsule.research_lock import Package, lock_version, plain_name, read_lock
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, AgentId
from tests.support.gateway import PROJECT
from tests.support.killed_research import NOW, build, lock

AGENT = SYSTEM_AGENT_ID


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    for path in (made.agent_data(AGENT), made.agent_runtime(AGENT)):
        path.mkdir(parents=True)
    made.research_lock.parent.mkdir()
    made.research_lock.write_bytes((PROJECT / "config/research-documents.txt").read_bytes())
    return made


def test_the_lock_file_names_each_package_once_and_holds_no_address() -> None:
    text = (PROJECT / "config/research-documents.txt").read_text()
    found = read_lock(PROJECT / "config/research-documents.txt")
    assert {one.name: one.version for one in found.packages}.items() >= {"pypdf": "6.14.2", "python-docx": "1.2.0"}.items()
    assert [one.name for one in found.packages] == [
        "cffi", "cryptography", "lxml", "pycparser", "pypdf", "python-docx", "typing-extensions",
    ]
    assert all("--hash=sha256:" in one.requirement and one.requirement.count("==") == 1 for one in found.locked)
    assert "".join(one.requirement for one in found.locked) == text
    assert "://" not in text


@pytest.mark.parametrize(("name", "plain"), [("typing_extensions", "typing-extensions"), ("A.-_b", "a-b"), ("lxml", "lxml")])
def test_a_package_name_has_one_spelling(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@pytest.mark.parametrize("line", ["package\n", "--index-url somewhere\n", "package>=1\n"])
def test_a_line_that_pins_nothing_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "lock.txt").write_text(f"one==1 \\\n    --hash=sha256:00\n{line}")
    with pytest.raises(ValueError, match="names no package and version"):
        read_lock(tmp_path / "lock.txt")


def test_only_the_environment_of_this_lock_file_counts_as_installed(checkout: Checkout) -> None:
    assert installed(checkout, AGENT) is None
    build(checkout, "one")
    made = publish(checkout, AGENT, read_lock(checkout.research_lock), NOW)
    assert installed(checkout, AGENT) == recorded(checkout, AGENT) == made
    assert made == ResearchEnv(checkout.research_env(AGENT), lock_version(checkout.research_lock), made.packages, NOW)
    assert made.packages[0] == Package("cffi", read_lock(checkout.research_lock).packages[0].version)
    assert installed(checkout, AgentId("another")) is None
    checkout.research_lock.write_text(checkout.research_lock.read_text() + "# changed\n")
    assert installed(checkout, AGENT) is None
    assert recorded(checkout, AGENT) == made


def test_what_is_published_is_sealed_and_replaces_the_former_one(checkout: Checkout) -> None:
    for content in ("one", "two"):
        build(checkout, content)
        (staging(checkout, AGENT) / ".lock").touch()
        publish(checkout, AGENT, lock(content), NOW)
        target = checkout.research_env(AGENT)
        found = {str(path.relative_to(target)): path.stat().st_mode & 0o777 for path in (target, *target.rglob("*"))}
        assert found == {".": 0o700, "package": 0o700, "package/module.py": 0o400}
        assert (target / "package/module.py").read_text() == content
        assert not converge(checkout, AGENT)
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1,"version":"x","packages":[{}],"installed_at":"y"}'])
def test_an_environment_whose_record_is_not_ours_counts_as_absent_and_goes(checkout: Checkout, record: bytes) -> None:
    build(checkout, "one")
    publish(checkout, AGENT, lock("one"), NOW)
    checkout.research_record(AGENT).write_bytes(record)
    assert recorded(checkout, AGENT) is None
    assert converge(checkout, AGENT)
    assert not checkout.research_env(AGENT).exists()
    assert not checkout.research_record(AGENT).exists()


def test_a_record_without_its_directory_goes(checkout: Checkout) -> None:
    """A restored backup has the record only."""
    build(checkout, "one")
    publish(checkout, AGENT, lock("one"), NOW)
    record = checkout.research_record(AGENT).read_bytes()
    remove(checkout, AGENT)
    checkout.research_record(AGENT).write_bytes(record)
    assert recorded(checkout, AGENT) is None
    assert converge(checkout, AGENT)
    assert not checkout.research_record(AGENT).exists()


@pytest.mark.parametrize("change", ["publish", "remove"])
def test_a_crash_at_any_step_leaves_a_whole_environment_or_none(checkout: Checkout, change: str) -> None:
    step, killed, seen = 0, True, set()
    while killed:
        step += 1
        remove(checkout, AGENT)
        build(checkout, "old")
        publish(checkout, AGENT, lock("old"), NOW)
        command = [sys.executable, "-m", "tests.support.killed_research", str(checkout.root), change, str(step)]
        ended = subprocess.run(command, env={"PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}"}, check=False)
        killed = ended.returncode == -signal.SIGKILL
        assert killed or ended.returncode == 0
        found = recorded(checkout, AGENT)
        assert converge(checkout, AGENT) or not killed or found is not None
        assert recorded(checkout, AGENT) == found, "convergence changes nothing that is whole"
        seen.add(None if found is None else found.version)
        if found is not None:
            assert (found.path / "package/module.py").read_text() == found.version
            assert json.loads(checkout.research_record(AGENT).read_bytes())["version"] == found.version
        assert checkout.research_env(AGENT).exists() == (found is not None)
        assert not staging(checkout, AGENT).exists()
    assert step > (8 if change == "publish" else 3)
    assert seen == {"old", None, "new"} if change == "publish" else {"old", None}
