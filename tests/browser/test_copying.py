"""The page is used at http://<address>, where browsers offer neither clipboard nor random ids: it works and copies all the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.support.browser import Workbench
from tests.support.fake_ollama import FakeOllama, text
from tests.support.gateway import Gateway

HOST = "workbench.test"
ANSWER = "Tabs\tand 👩‍👩‍👧‍👦\n\n```sh\necho  'two  blanks'\n\techo tab\n```\n" + "long " * 2400 + "\n"


@pytest.fixture
async def far(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[Gateway]:
    """A Gateway that may be addressed by a name."""
    async with Gateway(tmp_path, fake.port, AGENT_BUILDER_ALLOWED_HOSTS=HOST) as running:
        yield running


async def test_everything_works_without_a_secure_context(far: Gateway, fake: FakeOllama) -> None:
    fake.script(text(ANSWER, size=500))
    async with Workbench.open(far, host=HOST, arguments=(f"--host-resolver-rules=MAP {HOST} 127.0.0.1",)) as bench:
        await bench.sign_in()
        assert await bench.page.evaluate("[isSecureContext, typeof navigator.clipboard, typeof crypto.randomUUID]") == [False, "undefined", "undefined"]
        await bench.send("copy me")
        await bench.answered(1)
        await bench.page.locator(".foot").get_by_role("button", name="Copy").click()
        await expect(bench.page.locator(".foot").get_by_role("button", name="Copied")).to_be_visible()
        conversation = (await far.ok("GET", f"{far.agent}/sessions"))["items"][0]["conversation_id"]
        answer = (await far.page(conversation))["turns"][0]["assistant_text"]
        assert await bench.copied() == answer
        await bench.page.locator(".code-block").get_by_role("button", name="Copy").click()
        assert await bench.copied() == "echo  'two  blanks'\n\techo tab"
        # Chromium notes that it ignores this header where the connection is not secure; that is no fault of the page.
        assert [fault for fault in bench.faults if "Cross-Origin-Opener-Policy header has been ignored" not in fault] == []


async def test_a_refused_clipboard_falls_back(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("plain words"))
    async with Workbench.open(gateway) as bench:
        await bench.page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new DOMException('no', 'NotAllowedError'))")
        await bench.sign_in()
        await bench.send("copy me")
        await bench.answered(1)
        await bench.page.locator(".foot").get_by_role("button", name="Copy").click()
        assert await bench.copied() == "plain words"
        assert bench.faults == []


async def test_when_nothing_can_be_copied_the_text_is_selected_and_the_button_says_so(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("plain words"))
    async with Workbench.open(gateway) as bench:
        await bench.page.add_init_script(
            "navigator.clipboard.writeText = () => Promise.reject(new DOMException('no', 'NotAllowedError')); document.execCommand = () => false"
        )
        await bench.sign_in()
        await bench.send("copy me")
        await bench.answered(1)
        button = bench.page.locator(".foot").get_by_role("button", name="Copy")
        await button.click()
        await expect(bench.page.locator(".foot").get_by_role("button", name="Selected")).to_be_visible()
        assert "plain words" in await bench.page.evaluate("String(getSelection())")
