"""schemathesis against the live Gateway: its document is what it does, and no request whatever makes it fail."""

import asyncio
import os
import sys
from pathlib import Path

from tests.support.fake_ollama import FakeOllama
from tests.support.gateway import SYSTEM_AGENT, Gateway

HOOKS = Path(__file__).parents[1] / "support/schemathesis_zip.py"
DOCUMENT = Path(__file__).parents[2] / "docs/openapi.json"
EXAMPLES = 5

# The session's end is tried by hand in test_way_in.py: here it would end the run.
EXCLUDED = ("/api/logout",)

# What a schema cannot say: a cursor that this process made, a model of the catalog, a file that is there, an archive.
MEANING = (
    "/api/agents/{agent_id}/sessions/{conversation_id}",
    "/api/agents/{agent_id}/sessions/{conversation_id}/runs",
    "/api/agents/{agent_id}/workspace/file",
    "/api/agents/{agent_id}/skills",
)


async def schemathesis(gateway: Gateway, folder: Path, ids: dict[str, str]) -> tuple[int, str]:
    """Exit status and output of one run; the ids are those of real things, so that it gets past `not_found`."""
    config = folder / "schemathesis.toml"
    ((cookie, session),) = gateway.client.cookies.items()
    config.write_text("\n".join((
        f'hooks = "{HOOKS}"', "[parameters]", *(f'"path.{name}" = "{value}"' for name, value in ids.items()),
        f'[auth.openapi.session]\napi_key = "{session}"', f'[auth.openapi.csrf]\napi_key = "{gateway.csrf}"',
        *(f'[[operations]]\ninclude-path = "{path}"\nchecks.positive_data_acceptance.enabled = false' for path in MEANING),
    )))
    document = folder / "openapi.json"
    document.write_text(DOCUMENT.read_text().replace('"agent_builder_session"', f'"{cookie}"'))
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", str(document),
        "--url", f"http://127.0.0.1:{gateway.port}", "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES),
        "--seed", "7", "--no-shrink", "--no-color", "--warnings", "off", "--request-timeout", "20",
        *(part for path in EXCLUDED for part in ("--exclude-path", path)),
        "--header", f"Origin:http://127.0.0.1:{gateway.port}",
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_schemathesis_finds_no_fault_and_no_undocumented_answer(tmp_path: Path) -> None:
    with FakeOllama() as fake:
        async with Gateway(tmp_path, fake.port) as gateway:
            conversation = await gateway.new_conversation()
            run = await gateway.run(conversation, "hello")
            task = await gateway.ok("POST", f"{gateway.agent}/runs/{run.run_id}/tasks", {"kind": "runtime-compile"})
            ids = {"agent_id": SYSTEM_AGENT, "conversation_id": conversation, "run_id": run.run_id, "task_id": task["task_id"]}
            status, output = await schemathesis(gateway, tmp_path, ids)
    assert status == 0, output[-20000:]
