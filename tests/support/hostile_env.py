"""A worker environment whose Worker is tests/support/hostile_worker.py."""

from pathlib import Path

SOURCE = Path(__file__).with_name("hostile_worker.py")


def make_hostile(worker_env: Path) -> None:
    """Replaces the Worker in an environment that write_worker_env has made."""
    main = worker_env / "worker/__main__.py"
    for compiled in (main.parent / "__pycache__").glob("__main__.*"):
        compiled.unlink()
    main.write_bytes(SOURCE.read_bytes())
