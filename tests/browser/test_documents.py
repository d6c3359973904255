"""What the page tells of a document that was read, and of one that gave no text: in the dialogue and in the details."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.support import documents as made
from tests.support.browser import Workbench
from tests.support.capability import put
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import Gateway
from tests.support.research import PACKAGE_ENVIRONMENT, equip, install


@pytest.fixture
async def gateway(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[Gateway]:
    async with Gateway(tmp_path, fake.port, **PACKAGE_ENVIRONMENT) as running:
        equip(running.root)
        yield running


async def test_a_document_has_its_pages_and_a_scan_its_reason_in_both_languages(gateway: Gateway, fake: FakeOllama) -> None:
    await install(gateway)
    put(gateway.workspace, "report.pdf", made.pdf("words", "more"))
    put(gateway.workspace, "scan.pdf", made.pdf("", ""))
    fake.script(call("document_extract_text", path="report.pdf"), call("document_extract_text", path="scan.pdf"), text("The scan has no text."))
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "compare report.pdf and scan.pdf")
    for locale, size, pages, reason in (("en-US", (1440, 900), "2 pages", "no text in it"), ("zh-CN", (360, 740), "2 页", "没有文字内容")):
        async with Workbench.open(gateway, size, locale=locale) as bench:
            await bench.sign_in()
            await bench.go_to(conversation)
            lines = bench.turns.first.locator(".tool-line")
            await expect(lines).to_have_count(2)
            await expect(lines.first).to_contain_text(f"report.pdf{pages}")
            await expect(lines.last).to_contain_text(f"scan.pdf{reason}")
            assert not await bench.scrolls_sideways()
            assert await bench.check_access() == []
            await bench.keep_picture(f"documents-{locale}")
            await bench.button("details", bench.topbar).click()
            await bench.page.locator(".event", has_text="document/extract_text").last.click()
            await expect(bench.page.locator("#details")).to_contain_text(reason)
            assert bench.faults == []
