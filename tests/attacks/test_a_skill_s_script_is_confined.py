"""What a script of a Skill can reach, whatever stands in it."""

from pathlib import Path

from agent_builder.sandbox.probes import SKILL_EXPECTED, Targets
from agent_builder.sandbox.profiles import SKILL_SCRIPT
from tests.support.confined import attack_as_command, run_command


def test_every_attack_is_refused_in_its_process(worker_env: Path, run_root: Path, targets: Targets) -> None:
    assert attack_as_command(SKILL_SCRIPT.name, worker_env, run_root, targets) == SKILL_EXPECTED


def test_a_link_in_its_folder_leads_nowhere(worker_env: Path, run_root: Path, targets: Targets) -> None:
    (run_root / "s.py").write_text("print(open('planted').read())\n")
    status, out, err = run_command(SKILL_SCRIPT.name, worker_env, run_root, ["s.py", ""])
    assert (status, out, "Permission denied" in err) == (1, "", True)


def test_machine_code_of_its_own_cannot_be_loaded(worker_env: Path, run_root: Path) -> None:
    source = (
        "import ctypes\n"
        "try:\n    import mmap\n    mmap.mmap(-1, 4096, prot=7)\nexcept (OSError, ImportError):\n    print('refused')\n"
        "try:\n    ctypes.CDLL('./library.so')\nexcept OSError:\n    print('refused')\n"
    )
    (run_root / "s.py").write_text(source)
    library = next(Path("/usr/lib").rglob("libz.so*"))
    (run_root / "library.so").write_bytes(library.read_bytes())
    assert run_command(SKILL_SCRIPT.name, worker_env, run_root, ["s.py", ""]) == (0, "refused\nrefused\n", "")


def test_without_script_and_input_nothing_runs(worker_env: Path, run_root: Path) -> None:
    (run_root / "s.py").write_text("print('ran')\n")
    for arguments in ([], ["s.py"], ["s.py", "", "more"]):
        assert run_command(SKILL_SCRIPT.name, worker_env, run_root, arguments) == (125, "", "this command is not allowed\n")
