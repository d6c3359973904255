"""A real Chromium in front of a real Gateway, and what a person does with the page.

    async with Workbench.open(gateway, width=360, height=740) as bench:
        await bench.sign_in()
        await bench.send("hello")
        await bench.answered(1)
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    async_playwright,
    expect,
)

from tests.support.gateway import PROJECT, SYSTEM_AGENT, Gateway

SCREENSHOTS = PROJECT / "tests/screenshots"
CHROMIUM = os.environ.get("AGENT_BUILDER_CHROMIUM", "/usr/bin/chromium")
expect.set_options(timeout=15_000)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESKTOP, PHONE = (1440, 900), (360, 740)

# Words by which a test finds what a reader reads.
WORDS = {
    "en-US": {
        "approve": "Approve", "details": "Details", "new": "New conversation", "nav": "Open Agents and Conversations", "actions": "Conversation actions",
        "rename": "Rename…", "rename_ok": "Rename", "delete": "Delete…", "delete_ok": "Delete", "close_details": "Close run details", "stop": "Stop",
        "loading": "Loading…",
    },
    "zh-CN": {
        "approve": "批准", "details": "详情", "new": "新会话", "nav": "打开 Agent 与会话", "actions": "会话操作",
        "rename": "重命名…", "rename_ok": "重命名", "delete": "删除…", "delete_ok": "删除", "close_details": "关闭运行详情", "stop": "停止",
        "loading": "正在加载…",
    },
}


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *arguments])
        try:
            yield browser
        finally:
            await browser.close()


class Workbench:
    """One tab. `faults` holds every console error, page error and request to another host, in order."""

    def __init__(self, gateway: Gateway, page: Page, locale: str, place: str) -> None:
        self.gateway, self.page, self.place, self.locale = gateway, page, place, locale
        self.words = WORDS[locale]
        self.faults: list[str] = []
        page.set_default_timeout(15_000)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        page.on("request", self._request)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, gateway: Gateway, size: tuple[int, int] = DESKTOP, *, locale: str = "en-US", host: str = "127.0.0.1", port: int | None = None,
        arguments: tuple[str, ...] = (), **context: Any,
    ) -> AsyncIterator["Workbench"]:
        """`port`: of a proxy in front of the Gateway."""
        async with chromium(*arguments) as browser:
            touch = {"has_touch": True, "is_mobile": True} if size[0] < 600 else {}
            tab = await browser.new_context(viewport={"width": size[0], "height": size[1]}, locale=locale, **{**touch, **context})
            yield cls(gateway, await tab.new_page(), locale, f"{host}:{port or gateway.port}")
            for page in tab.pages:
                await page.unroute_all(behavior="ignoreErrors")

    async def another_tab(self) -> "Workbench":
        """A second tab of the same browser, already signed in."""
        other = Workbench(self.gateway, await self.context.new_page(), self.locale, self.place)
        await other.go(urlsplit(self.page.url).fragment)
        return other

    # places and parts -----------------------------------------------------------------------------------------------

    @property
    def context(self) -> BrowserContext:
        return self.page.context

    @property
    def box(self) -> Locator:
        return self.page.locator("textarea").first

    @property
    def turns(self) -> Locator:
        return self.page.locator("article.turn")

    @property
    def approve(self) -> Locator:
        return self.page.get_by_role("button", name=self.words["approve"])

    @property
    def topbar(self) -> Locator:
        return self.page.locator("#topbar")

    def button(self, word: str, where: Locator | None = None) -> Locator:
        return (where or self.page).get_by_role("button", name=self.words[word], exact=True)

    # what a person does ----------------------------------------------------------------------------------------------

    async def go(self, fragment: str = "") -> None:
        await self.page.goto(f"http://{self.place}/{'#' + fragment if fragment else ''}")
        await expect(self.box).to_be_enabled()

    async def go_to(self, conversation: str) -> None:
        """A Conversation of the default Agent."""
        await self.go(f"/{SYSTEM_AGENT}/{conversation}")

    async def sign_in(self) -> None:
        await self.page.goto(f"http://{self.place}/")
        await self.enter_token()

    async def enter_token(self) -> None:
        token = (self.gateway.root / ".runtime/secrets/web-bootstrap-token").read_text().strip()
        await self.page.locator("input[type=password]").fill(token)
        await self.page.keyboard.press("Enter")
        await expect(self.box).to_be_enabled()

    async def send(self, text: str) -> None:
        await self.box.fill(text)
        await self.box.press("Enter")
        await expect(self.page.locator(".user-text").get_by_text(text, exact=True).last).to_be_visible()

    async def answered(self, count: int) -> Locator:
        """The durable answer of Turn number `count`, the newest of so many."""
        await expect(self.turns).to_have_count(count)
        await expect(self.turns.last).not_to_have_attribute("aria-busy", "true")
        return self.turns.last.locator(".markdown")

    async def completed_unseen(self) -> None:
        """Waits beside the page until the Run of the newest Conversation's first Turn has completed."""
        conversation = (await self.gateway.ok("GET", f"{self.gateway.agent}/sessions"))["items"][0]["conversation_id"]
        run_id = (await self.gateway.page(conversation))["turns"][0]["run_id"]
        assert [event async for event in self.gateway.events(run_id)][-1]["type"] == "run.completed"

    async def show_conversation(self, title: str) -> None:
        if await self.button("nav").is_visible():
            await self.button("nav").click()
        await self.page.locator(".row-open", has=self.page.get_by_text(title, exact=True)).click()
        await expect(self.topbar.get_by_role("heading", name=title, exact=True)).to_be_visible()

    async def start_new(self) -> None:
        if await self.button("nav").is_visible():
            await self.button("nav").click()
        await self.button("new").click()

    # what is looked at -----------------------------------------------------------------------------------------------

    async def keep_picture(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    async def check_access(self) -> list[str]:
        """What axe calls serious or critical, one line each."""
        results = await Axe().run(self.page)
        return [
            f"{found['id']}: {node['html'][:160]}"
            for found in results.response["violations"] if found["impact"] in ("serious", "critical")
            for node in found["nodes"]
        ]

    async def scrolls_sideways(self) -> bool:
        return bool(await self.page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"))

    async def copied(self) -> str:
        """What a paste into the composer gives."""
        await self.box.fill("")
        await self.box.focus()
        await self.page.keyboard.press("Control+V")
        return await self.box.input_value()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        if re.match(r"https?:", request.url) and urlsplit(request.url).netloc != self.place:
            self.faults.append(f"foreign: {request.url}")


def write(gateway: Gateway, name: str, text: str) -> Path:
    """A workspace file that the tools accept."""
    path = gateway.workspace / name
    path.write_text(text)
    path.chmod(0o600)
    return path
