"""Everything that one does with the page in a day, in both sizes, both themes and both languages, and looked at in each state."""

import pytest
from playwright.async_api import expect

from tests.support.browser import DESKTOP, PHONE, Workbench, write
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import Gateway

LOOKS = [
    pytest.param(DESKTOP, "light", "en-US", id="desktop-light-english"),
    pytest.param(DESKTOP, "dark", "zh-CN", id="desktop-dark-chinese"),
    pytest.param(PHONE, "light", "zh-CN", id="phone-light-chinese"),
    pytest.param(PHONE, "dark", "en-US", id="phone-dark-english"),
]
RICH = "# Title\n\n- one\n- **two**\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"


@pytest.mark.parametrize(("size", "theme", "locale"), LOOKS)
async def test_a_day_with_the_page(gateway: Gateway, fake: FakeOllama, size: tuple[int, int], theme: str, locale: str) -> None:
    write(gateway, "notes.md", "first\nThe meeting is on Tusday.\nlast\n")
    async with Workbench.open(gateway, size, locale=locale, color_scheme=theme) as bench:
        page, seen = bench.page, _Look(bench, f"{size[0]}-{theme}-{locale}")
        await page.goto(f"http://127.0.0.1:{gateway.port}/")
        await expect(page.locator("input[type=password]")).to_be_visible()
        await seen.state("login")
        await bench.enter_token()
        await expect(page.locator(".welcome")).to_be_visible()
        await seen.state("welcome")

        fake.script(text(RICH))
        await bench.send("Tell me everything")
        await expect((await bench.answered(1)).locator("strong")).to_have_text("two")
        await seen.state("answer")

        fake.script(
            call("file_read_text", path="notes.md"), call("file_edit", path="notes.md", old="Tusday", new="Tuesday"), text("It is **corrected**.")
        )
        await bench.send("Correct notes.md")
        await expect(bench.approve).to_be_enabled()
        await expect(page.locator(".diff-line.add")).to_contain_text("The meeting is on Tuesday.")
        await seen.state("approval")
        await bench.approve.click()
        await expect((await bench.answered(2)).locator("strong")).to_have_text("corrected")
        assert (gateway.workspace / "notes.md").read_text() == "first\nThe meeting is on Tuesday.\nlast\n"

        await bench.button("details", bench.topbar).click()
        await page.locator(".event").nth(3).click()
        await expect(page.locator(".inspector-panel dl")).to_be_visible()
        await seen.state("details")
        await bench.button("close_details").click()

        await bench.button("actions", bench.topbar).click()
        await seen.state("menu")
        await page.get_by_role("menuitem", name=bench.words["rename"]).click()
        await page.locator("dialog input").fill("<b>Corrections</b> 更正")
        await seen.state("rename")
        await page.locator("dialog").get_by_role("button", name=bench.words["rename_ok"]).click()
        await expect(bench.topbar.get_by_role("heading", name="<b>Corrections</b> 更正")).to_be_visible()

        await bench.button("actions", bench.topbar).click()
        await page.get_by_role("menuitem", name=bench.words["delete"]).click()
        await page.locator("dialog").get_by_role("button", name=bench.words["delete_ok"]).click()
        await expect(page.locator(".welcome")).to_be_visible()
        assert (await gateway.ok("GET", f"{gateway.agent}/sessions"))["items"] == []
        assert seen.wrong == []
        assert bench.faults == []


class _Look:
    """Each state is photographed and checked; `wrong` collects what is not right with it."""

    def __init__(self, bench: Workbench, name: str) -> None:
        self.bench, self.name = bench, name
        self.wrong: list[str] = []

    async def state(self, state: str) -> None:
        await self.bench.keep_picture(f"{self.name}-{state}")
        self.wrong += [f"{state}: {fault}" for fault in await self.bench.check_access()]
        if await self.bench.scrolls_sideways():
            self.wrong.append(f"{state}: scrolls sideways")
