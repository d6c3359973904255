"""Every state of the page is photographed in both sizes and languages, and looked at with axe in one of the themes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.support.browser import DESKTOP, PHONE, Workbench, write
from tests.support.fake_ollama import Answer, FakeOllama, Gate, call, frame, line, status, text
from tests.support.gateway import Gateway

Json = dict[str, Any]
LOOKS = [
    pytest.param(DESKTOP, "en-US", id="desktop-english"), pytest.param(DESKTOP, "zh-CN", id="desktop-chinese"),
    pytest.param(PHONE, "en-US", id="phone-english"), pytest.param(PHONE, "zh-CN", id="phone-chinese"),
]
RICH = (
    "## What sum.py does\n\nIt adds the numbers below `n`, so the comment is **wrong by one**: `range(n)` stops at `n - 1`. 这一行是中文。\n\n"
    "1. read the file\n2. change one line\n\n> The comment says *to n*.\n\n```python\ndef total(n):\n    return n * (n + 1) // 2\n```\n\n"
    "| n | total |\n|--:|--:|\n| 3 | 6 |\n| 4 | 10 |\n"
)
LONG = "A title that goes on and on until no list can hold it, 并且还有很长的中文标题在后面继续下去"


SMALL = """least => [...document.querySelectorAll('button, select, summary, [role=option]:not(.event), input, textarea')]
    .filter(each => each.checkVisibility({visibilityProperty: true}) && !each.closest('[inert]'))
    .map(each => [each.getAttribute('aria-label') ?? each.textContent, each.getBoundingClientRect()])
    .filter(([, box]) => Math.round(box.height) < least || Math.round(box.width) < least)
    .map(([name, box]) => `${name} is ${Math.round(box.width)} by ${Math.round(box.height)} pixels`)"""
"""Controls that are too small for a finger or a pointer."""


async def _change(page: Any, where: str, change: Callable[[Json], Json]) -> None:
    """Lets the real answers of an address through, changed as the server would in another state."""

    async def route(route: Route) -> None:
        if route.request.method == "GET":
            await route.fulfill(json=change(await (await route.fetch()).json()))
        else:
            await route.fallback()

    await page.route(where, route)


class _Looks:
    """One tab and what was wrong in any of its states. `thorough`: axe looks too, and both themes are photographed; that is done once
    in each size and language. The others are photographed in one theme, in turns."""

    def __init__(self, bench: Workbench, gateway: Gateway, fake: FakeOllama, phone: bool) -> None:
        self.bench, self.page, self.gateway, self.fake, self.phone = bench, bench.page, gateway, fake, phone
        self.thorough = phone == (bench.locale == "zh-CN")
        self.wrong: list[str] = []
        self.seen: list[str] = []

    async def take(self, state: str) -> None:
        self.seen.append(state)
        themes = ("light", "dark") if (len(self.seen) + self.phone) % 2 else ("dark", "light")
        for theme in themes[: 2 if self.thorough else 1]:
            await self.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            await self.bench.keep_picture(f"{'phone' if self.phone else 'desktop'}-{self.bench.locale[:2]}-{theme}-{state}")
        if self.thorough:
            self.wrong += [f"{state}: {fault}" for fault in await self.bench.check_access()]
        self.wrong += [f"{state}: {small}" for small in await self.page.evaluate(SMALL, 44 if self.phone else 36)]
        if await self.bench.scrolls_sideways():
            self.wrong.append(f"{state}: scrolls sideways")

    async def nav(self) -> None:
        if self.phone:
            await self.page.locator("#topbar .only-narrow").click()

    async def show(self, conversation: str) -> None:
        await self.page.goto("about:blank")
        await self.page.goto(f"http://{self.bench.place}/#/{self.gateway.agent.rsplit('/', 1)[-1]}/{conversation}")

    async def type(self, words: str) -> None:
        await self.bench.box.fill("")
        await self.bench.box.press_sequentially(words)


async def _login(look: _Looks) -> None:
    await look.page.goto(f"http://{look.bench.place}/")
    await look.page.locator(".login-settings").click()
    await look.take("login-settings")
    await look.page.keyboard.press("Escape")
    await look.bench.enter_token()


async def _reading(look: _Looks, conversation: str) -> None:
    page, shown = look.page, asyncio.Event()

    async def late(route: Route) -> None:
        await shown.wait()
        await route.fallback()

    await page.route(f"**/sessions/{conversation}", late)
    await page.route("**/sessions", late)
    await look.show(conversation)
    await expect(page.locator(".skeleton")).to_be_visible()
    await expect(look.bench.topbar.locator(".title")).to_have_text(look.bench.words["loading"])
    await look.take("loading")
    shown.set()
    await expect(look.bench.turns).to_have_count(2)
    await look.take("read")
    await page.unroute_all(behavior="wait")
    await page.route(f"**/sessions/{conversation}", lambda route: route.fulfill(status=500, body="<html>"))
    await look.show(conversation)
    await expect(page.locator(".empty-page")).to_be_visible()
    await look.take("unread")
    await page.unroute_all(behavior="wait")
    await _change(page, f"**/sessions/{conversation}", _interrupted)
    await look.show(conversation)
    await expect(page.locator(".turn-failure")).to_be_visible()
    await look.take("interrupted")
    await page.unroute_all(behavior="wait")


def _interrupted(answer: Json) -> Json:
    answer["turns"][-1] |= {"state": "interrupted", "assistant_text": None, "usage": None, "reason": None}
    return answer


async def _many(look: _Looks, conversation: str) -> None:
    def many(answer: Json) -> Json:
        (one, *_) = (item for item in answer["items"] if item["conversation_id"] == conversation)
        rows = [{**one, "conversation_id": f"{one['conversation_id'][:-3]}{number:03}", "title": f"{number} {LONG}"} for number in range(99)]
        return {**answer, "items": [{**one, "title": LONG * 2}, *rows]}

    await _change(look.page, "**/sessions", many)
    await look.show(conversation)
    await expect(look.page.locator(".conversation-rows .row")).to_have_count(100)
    await look.nav()
    await look.take("hundred-rows")
    await look.page.unroute_all(behavior="wait")


async def _writing(look: _Looks, conversation: str) -> None:
    page, bench = look.page, look.bench
    await look.show(conversation)
    await expect(bench.turns).to_have_count(2)
    await look.type("/")
    await expect(page.locator(".offer")).to_have_count(7)
    await look.take("commands")
    await look.type("see @")
    await expect(page.locator(".offer[aria-disabled=true]")).to_have_count(1)
    await look.take("files")
    await page.keyboard.press("Escape")
    await bench.box.fill("Compare notes.md with 会议 纪要.md, and leave data.bin")
    await page.locator(".composer-row > .icon-button").click()
    await look.take("more-menu")
    await page.get_by_role("menuitemcheckbox").click()
    await expect(page.locator(".composer-chips .chip")).to_have_count(3)
    await look.take("chips")
    if await page.locator(".meter").is_visible():
        await page.locator(".meter").click()
        await look.take("meter")
        await page.keyboard.press("Escape")
    refusal = {"error": {"code": "attachment_refused", "message": "m", "retryable": False, "details": {"path": "data.bin", "reason": "not_text"}}}
    await page.route("**/runs", lambda route: route.fulfill(status=409, json=refusal))
    await bench.box.press("Enter")
    await expect(page.locator(".note.lost")).to_be_visible()
    await look.take("refused")
    await page.unroute_all(behavior="wait")
    await bench.box.fill("/status")
    await bench.box.press("Enter")
    await expect(page.locator(".command-result")).to_be_visible()
    await look.take("command-result")


async def _running(look: _Looks, conversation: str) -> None:
    page, bench, thinks, answers = look.page, look.bench, Gate(), Gate()

    async def play(answer: Answer, _: Json) -> None:
        await answer.write(line(frame(thinking="The operator asks for sum.py.\nFirst I read it, then I compare it with its comment.")))
        await answer.unless_gone(thinks.wait())
        await answer.write(line(frame(content="It adds the numbers below n, and the comment\nsays something else. Here is")))
        await answer.unless_gone(answers.wait())

    look.fake.script(play)
    await bench.send("What is in sum.py, and does it do what its comment says?")
    await page.locator(".thinking summary").click()
    await look.take("thinking")
    thinks.open()
    await expect(page.locator(".live-text")).to_contain_text("Here is")
    await page.locator("#talk").evaluate("talk => { talk.scrollTop = talk.scrollHeight }")
    await expect(page.locator(".to-latest")).to_be_hidden()
    await look.take("streaming")
    await bench.button("details", bench.topbar).click()
    await expect(page.locator(".event").nth(5)).to_be_visible()
    await look.take("details-live")
    await bench.button("close_details").click()
    await page.route("**/api/events*", lambda route: route.abort())
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(page.locator("#stage .button")).to_be_visible()
    await look.take("lost")
    await page.unroute_all(behavior="wait")
    await page.locator("#stage .button").click()
    await expect(page.locator("#stage .button")).to_be_hidden()
    stopped = asyncio.Event()

    async def late(route: Route) -> None:
        await stopped.wait()
        await route.fallback()

    await page.route("**/preparation/cancel", late)
    await page.locator("#stage .stop").click()
    await expect(page.locator("#stage .stop")).to_be_disabled()
    stopping = await page.locator("#stage .stage-text").inner_text()
    await look.take("stopping")
    stopped.set()
    await expect(page.locator(".turn-failure")).to_be_visible()
    await expect(page.locator("#stage .stage-text")).not_to_have_text(stopping)
    await look.take("stopped")
    look.fake.script(status(404, json.dumps({"error": "model not found"})))
    await bench.send("And now?")
    await expect(page.locator(".turn-failure.failed")).to_be_visible()
    await look.take("failed")


async def _deciding(look: _Looks, other: str) -> None:
    page, bench = look.page, look.bench
    look.fake.script(call("file_read_text", path="notes.md"), call("file_edit", path="notes.md", old="Tusday", new="Tuesday"), text("Left as it is."))
    await bench.send("Correct notes.md")
    await expect(bench.approve).to_be_enabled()
    await page.locator(".ask-actions .button:not(.primary)").first.click()
    await look.take("denying")
    await look.nav()
    await page.locator(".agent-button").click()
    await page.locator(".agent-rows .row-open", has_text=other).click()
    await expect(page.locator(".agent-name")).to_have_text(other)
    await look.nav()
    await page.locator(".agent-button").click()
    await expect(page.locator(".agent-button .dot.waits")).to_be_visible()
    await look.take("another-agent-waits")
    (asked,) = (await look.gateway.ok("GET", f"{look.gateway.agent}/permissions"))["items"]
    await look.gateway.ok("POST", f"{look.gateway.agent}/permissions/{asked['permission_id']}", {"decision": "deny"})
    await expect(page.locator(".agent-button .dot")).to_be_hidden()


def _in_phase(phase: str, answer: Json) -> Json:
    return {"items": [{**item, "phase": phase} for item in answer["items"]]}


async def _away(look: _Looks, conversation: str) -> None:
    page, bench = look.page, look.bench
    await look.show(conversation)
    await expect(bench.turns).not_to_have_count(0)
    await bench.button("actions", bench.topbar).click()
    await page.get_by_role("menuitem", name=bench.words["delete"]).click()
    await look.take("confirm")
    await page.keyboard.press("Escape")
    await look.nav()
    await page.locator(".sidebar-foot .icon-button").click()
    await look.take("settings")
    await page.keyboard.press("Escape")
    for phase in ("damaged", "deleting"):
        await _change(page, "**/api/agents", partial(_in_phase, phase))
        await look.show("")
        await expect(page.locator(".welcome-action")).to_be_visible()
        await bench.box.fill("a draft")
        await expect(page.locator(".send")).to_be_disabled()
        await look.take(f"agent-{phase}")
        await page.unroute_all(behavior="wait")
    await look.show(conversation)
    await expect(bench.turns).not_to_have_count(0)
    await page.route("**/health", lambda route: route.abort())
    await page.evaluate("dispatchEvent(new Event('focus'))")
    await expect(page.locator(".note")).to_be_visible()
    await look.take("unreachable")
    await page.unroute_all(behavior="wait")
    await page.route("**/api/session", lambda route: route.abort())
    await page.reload()
    await expect(page.locator(".empty-page .button")).to_be_visible()
    await look.take("not-started")


@pytest.mark.parametrize(("size", "locale"), LOOKS)
async def test_every_state_in_both_themes(gateway: Gateway, fake: FakeOllama, size: tuple[int, int], locale: str) -> None:
    write(gateway, "notes.md", "first\nThe meeting is on Tusday.\nlast\n")
    write(gateway, "会议 纪要.md", "议程\n")
    write(gateway, "data.bin", "\0")
    other = (await gateway.ok("POST", "/api/agents", {"name": "Librarian"}))["name"]
    fake.script(call("file_read_text", path="notes.md"), text(RICH), text("It does what its comment says."))
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "What is in sum.py, and does it do what its comment says?")
    await gateway.run(conversation, "Thanks. And prices.csv?")
    async with Workbench.open(gateway, size, locale=locale) as bench:
        look = _Looks(bench, gateway, fake, phone=size == PHONE)
        parts: list[Awaitable[None]] = [
            _login(look), _reading(look, conversation), _many(look, conversation), _writing(look, conversation), _running(look, conversation),
            _deciding(look, other), _away(look, conversation),
        ]
        for part in parts:
            await part
        assert look.wrong == []
        assert [fault for fault in bench.faults if not fault.startswith("console: Failed to load resource")] == []


BETWEEN = [(1600, 1000), (1100, 800), (820, 1100), (844, 390)]


async def test_the_sizes_between_and_beyond_keep_everything_in_reach(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "notes.md", "first\nThe meeting is on Tusday.\nlast\n")
    fake.script(text(RICH))
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "What is in sum.py, and does it do what its comment says?")
    fake.script(call("file_read_text", path="notes.md"), call("file_edit", path="notes.md", old="Tusday", new="Tuesday"), text("Left as it is."))
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await bench.sign_in()
        await bench.show_conversation("What is in sum.py, and does it do what its comment says?")
        await bench.send("Correct notes.md")
        await expect(bench.approve).to_be_enabled()
        for width, height in BETWEEN:
            await page.set_viewport_size({"width": width, "height": height})
            for part in (bench.approve, bench.box, page.locator("#stage .stop"), page.locator(".send")):
                await expect(part).to_be_in_viewport(ratio=1)
            await bench.keep_picture(f"{width}x{height}-approval")
            await bench.button("details", bench.topbar).click()
            await expect(page.locator(".event").first).to_be_visible()
            await bench.keep_picture(f"{width}x{height}-details")
            assert not await bench.scrolls_sideways()
            rows = await page.locator(".timeline-scroll").bounding_box()
            assert rows is not None
            assert rows["height"] >= 100
            await bench.button("close_details").click()
        assert bench.faults == []
