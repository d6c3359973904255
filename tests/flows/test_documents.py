"""A document in a Conversation: offered once the Agent can read documents, read by a confined parser, told to the model, audited."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flows.test_cancel import cancelled, started
from tests.support import documents as made
from tests.support.capability import put
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import Gateway, Json
from tests.support.research import PACKAGE_ENVIRONMENT, equip, install, route
from tests.support.tool_turns import outcomes

NAME = "document_extract_text"


@pytest.fixture
async def gateway(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[Gateway]:
    async with Gateway(tmp_path, fake.port, **PACKAGE_ENVIRONMENT) as running:
        equip(running.root)
        yield running


def offered(fake: FakeOllama) -> list[str]:
    return [tool["function"]["name"] for tool in fake.chats[-1]["tools"]]


async def left(gateway: Gateway) -> list[str]:
    """What is below the run roots once the Run has gone."""
    async with asyncio.timeout(10):
        while (await gateway.client.get("/health")).json()["active_runs"]:
            await asyncio.sleep(0.01)
    return [path.name for path in gateway.root.glob(".runtime/agents/*/runs/*")]


async def test_a_document_is_read_only_where_the_agent_can_and_the_audit_has_it(gateway: Gateway, fake: FakeOllama) -> None:
    put(gateway.workspace, "报告.pdf", made.chinese_pdf("青竹四十二号"))
    conversation = await gateway.new_conversation()
    read = call(NAME, path="报告.pdf")
    fake.script(text("no"))
    await gateway.run(conversation, "hello")
    assert NAME not in offered(fake)

    assert await left(gateway) == []
    await install(gateway)
    fake.script(read, text("It says 青竹四十二号."))
    run = await gateway.run(conversation, "What does 报告.pdf say?")
    assert (run.text, outcomes(run)) == ("It says 青竹四十二号.", [("ok", None)])
    assert offered(fake)[-1] == NAME
    shown = [message["content"] for message in fake.chats[-1]["messages"] if message["role"] == "tool"]
    assert shown == ["报告.pdf: PDF, 1 page, 17 characters\n[page 1]\n青竹四十二号\n\n"]
    (receipt,) = [one["receipt"] for one in run.of("tool.call.finished")]
    assert (receipt["format"], receipt["pages"], receipt["total_chars"], receipt["truncated"], receipt["bytes"]) == ("pdf", 1, 17, False, len(shown[0].encode()))
    assert not run.of("permission.requested")
    audit: Json = await gateway.ok("GET", f"{gateway.agent}/runs/{run.run_id}/capability-audit")
    assert [one["type"] for one in audit["items"] if one["type"].startswith("tool.")] == ["tool.call.proposed", "tool.call.started", "tool.call.finished"]
    assert "青竹" not in str([one for one in audit["items"] if one["type"] == "tool.call.finished"])
    assert await left(gateway) == []

    assert (await gateway.call("DELETE", route())).status_code == 204
    fake.script(text("no"))
    await gateway.run(conversation, "again")
    assert NAME not in offered(fake)


async def test_a_run_that_is_stopped_or_killed_while_it_reads_leaves_no_copy(gateway: Gateway, fake: FakeOllama) -> None:
    await install(gateway)
    put(gateway.workspace, "endless.pdf", made.endless_pdf())
    conversation = await gateway.new_conversation()
    fake.script(call(NAME, path="endless.pdf"))
    run, reading = await started(gateway, conversation, "tool.call.started")
    await copied(gateway)
    await cancelled(gateway, run, reading)
    assert [(one["outcome"], one["code"]) for one in run.of("tool.call.finished")] == [("failed", "cancelled")]
    assert await left(gateway) == []

    fake.script(call(NAME, path="endless.pdf"))
    await gateway.submit(conversation, "once more")
    await copied(gateway)
    await gateway.kill()
    assert list(gateway.root.glob(".runtime/agents/*/runs/*.document"))
    await gateway.start()
    await gateway.login()
    assert await left(gateway) == []
    assert [turn["state"] for turn in (await gateway.page(conversation))["turns"]] == ["cancelled", "interrupted"]


async def copied(gateway: Gateway) -> None:
    async with asyncio.timeout(10):
        while not list(gateway.root.glob(".runtime/agents/*/runs/*.document/document")):
            await asyncio.sleep(0.01)
