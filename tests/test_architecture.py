"""The floor table: a room imports only from lower floors, and rooms on one floor never see each other."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src/agent_builder"
FLOORS = {
    "app": 10, "settings": 10, "system_clock": 10, "__main__": 10,
    "gateway": 9, "commands": 8, "agents": 7, "tasks": 6, "conversations": 5, "runs": 4, "tools": 3, "capsule": 2, "worker": 2,
    "storage": 1, "sandbox": 1, "llm": 1, "context": 1, "protocol": 0,
}
APART = {"local_model": set(), "ops": {"protocol", "storage", "sandbox"}}  # may import only these; imported by nobody
WORKER_MAY = {"protocol", "sandbox", "worker"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "agent_builder":
                names = [f"agent_builder.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("agent_builder.")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_from_lower_floors(path: Path) -> None:
    room = room_of(path)
    for other in imported_rooms(path) - {room}:
        if room in APART:
            assert other in APART[room], f"{room} imports {other}"
            continue
        assert other not in APART, f"{room} imports {other}"
        if room == "worker":
            assert other in WORKER_MAY
        top = FLOORS[room] == FLOORS["app"]
        assert FLOORS[other] < FLOORS[room] or (top and room in ("app", "__main__")), f"{room} imports {other}"


def numbers(path: Path) -> list[tuple[int, int]]:
    tree = ast.parse(path.read_text())
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) >= 64 and ast.get_source_segment(path.read_text(), node).isdigit()
    ]


EXEMPT = {"limits.py", "linux_calls.py", "syscall_policy.py", "errors.py", "probes.py", "ollama_shapes.py", "bounds.py"}


@pytest.mark.parametrize("path", [path for path in FILES if path.name not in EXEMPT], ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_bound_stands_in_limits_and_nowhere_else(path: Path) -> None:
    statuses = set(range(100, 600)) if room_of(path) in ("gateway", "llm", "local_model", "ops") else set()
    found = [(line, value) for line, value in numbers(path) if value not in statuses and value not in (1000, 100)]
    assert not found, f"decimal integers of 64 and more: {found}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 50, f"{node.name} has more than 50 lines"
