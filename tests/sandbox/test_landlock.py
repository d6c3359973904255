import os
from pathlib import Path

import pytest

from agent_builder.sandbox.landlock import READ, REQUIRED_ABI, PathRule, abi_version, build_ruleset
from agent_builder.sandbox.profiles import COMMAND_BASH, COMMAND_COMPILE, WORKER, Grants, GrantsRefused, path_rules


def test_this_kernel_is_new_enough() -> None:
    assert abi_version() >= REQUIRED_ABI


def test_a_rule_on_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(OSError, match="symlink"):
        build_ruleset([PathRule(str(tmp_path / "link"), READ)])


def test_a_rule_on_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build_ruleset([PathRule(str(tmp_path / "nothing"), READ)])


def test_a_rule_on_a_file_takes_only_the_rights_a_file_has(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    ruleset = build_ruleset([PathRule(str(file), READ)])
    assert not os.get_inheritable(ruleset)
    os.close(ruleset)


@pytest.mark.parametrize(
    ("profile", "grants"),
    [
        (WORKER, Grants(execute=("/bin/true",))),
        (COMMAND_COMPILE, Grants(execute=("/bin/true",))),
        (COMMAND_COMPILE, Grants(write=("/tmp",))),
        (COMMAND_BASH, Grants(write=("/tmp",))),
    ],
)
def test_grants_beyond_the_profile_are_refused(profile: object, grants: Grants) -> None:
    with pytest.raises(GrantsRefused):
        path_rules(profile, grants)  # type: ignore[arg-type]
