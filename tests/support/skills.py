"""Archives of Skills as an operator would upload them."""

import io
import zipfile
from collections.abc import Mapping

INSTRUCTIONS = "# Greeting\n\nRun scripts/hello.py with a name as input.\n"
HELLO = "import sys\nprint('Hello,', sys.stdin.read().strip() or 'nobody')\n"


def skill_md(name: str = "greet", version: str = "1.0.0", description: str = "Greets people by name.", body: str = INSTRUCTIONS) -> str:
    return f"---\nname: {name}\ndescription: {description}\nversion: {version}\n---\n{body}"


def packed(files: Mapping[str, str | bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Entries in their order; a name that ends with / is a folder."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", packing) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def archive(scripts: Mapping[str, str] | None = None, more: Mapping[str, str | bytes] | None = None, **front: str) -> bytes:
    """A Skill in its one top folder, with scripts/hello.py unless `scripts` says otherwise."""
    name = front.get("name", "greet")
    files: dict[str, str | bytes] = {f"{name}/SKILL.md": skill_md(**front)}
    for script, source in ({"hello.py": HELLO} if scripts is None else scripts).items():
        files[f"{name}/scripts/{script}"] = source
    return packed(files | {f"{name}/{path}": content for path, content in (more or {}).items()})
