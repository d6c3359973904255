"""A Skill as one meets it on the page: added through the chooser, refused by a drop, used with the operator's word, switched, removed."""

import pytest
from playwright.async_api import expect

from tests.support.browser import DESKTOP, PHONE, Workbench
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import Gateway
from tests.support.skills import archive

ENGLISH = {
    "agents": "Agent Assistant: show all Agents", "actions": "Actions for Agent Assistant", "panel": "Documents, Skills and Tasks…", "none": "No Skills yet.",
    "add": "Add a Skill…", "installed": "greet 1.0.0 is installed and in use.", "no_zip": "This is no zip archive.", "use": "Use this version: greet 1.0.0",
    "used": "greet 1.0.0 is in use.", "close": "Close", "asked": "Use the Skill greet 1.0.0 · hello.py?", "remove": "Remove… greet 2.0.0", "sure": "Remove",
    "removed": "greet 2.0.0 was removed.", "exists": "This version is installed with other content. Raise the version, or remove that one first.",
}
CHINESE = {
    "agents": "Agent Assistant：显示全部 Agent", "actions": "Agent Assistant 的操作", "panel": "文档、Skill 与 Task…", "none": "还没有 Skill。",
    "add": "添加 Skill…", "installed": "greet 1.0.0 已安装并启用。", "no_zip": "这不是 zip 压缩包。", "use": "使用此版本：greet 1.0.0",
    "used": "greet 1.0.0 已启用。", "close": "关闭", "asked": "使用 Skill greet 1.0.0 · hello.py？", "remove": "移除… greet 2.0.0", "sure": "移除",
    "removed": "greet 2.0.0 已移除。", "exists": "此版本已安装，但内容不同。请提高版本号，或先移除已安装的版本。",
}
LOOKS = [
    pytest.param(DESKTOP, "light", "en-US", ENGLISH, id="desktop-light-english"), pytest.param(PHONE, "dark", "zh-CN", CHINESE, id="phone-dark-chinese"),
]
WIDE = "(panels) => panels.some((panel) => panel.scrollWidth > panel.clientWidth + 1)"
DROP = """() => {
  const data = new DataTransfer();
  data.items.add(new File(["no zip"], "notes.zip"));
  return data;
}"""


@pytest.mark.parametrize(("size", "theme", "locale", "words"), LOOKS)
async def test_a_skill_from_its_archive_to_its_removal(
    gateway: Gateway, fake: FakeOllama, size: tuple[int, int], theme: str, locale: str, words: dict[str, str]
) -> None:
    async with Workbench.open(gateway, size, locale=locale, color_scheme=theme) as bench:
        page, wrong = bench.page, []
        panel, rows = page.locator("dialog.agent-sections"), page.locator(".skill")
        told, fault = panel.locator(".skill-told"), panel.locator(".skills-part .field-fault")

        async def look(state: str) -> None:
            await bench.keep_picture(f"{size[0]}-{theme}-{locale}-skills-{state}")
            wrong.extend(await bench.check_access())
            if await bench.scrolls_sideways() or await panel.evaluate_all(WIDE):
                wrong.append(f"{state}: scrolls sideways")

        async def open_panel() -> None:
            if await bench.button("nav").is_visible():
                await bench.button("nav").click()
            if not await page.get_by_role("button", name=words["actions"]).is_visible():
                await page.get_by_role("button", name=words["agents"]).click()
            await page.get_by_role("button", name=words["actions"]).click()
            await page.get_by_role("menuitem", name=words["panel"]).click()

        async def choose(data: bytes) -> None:
            async with page.expect_file_chooser() as chosen:
                await panel.get_by_role("button", name=words["add"]).press("Enter")
            await (await chosen.value).set_files({"name": "greet.zip", "mimeType": "application/zip", "buffer": data})

        await bench.sign_in()
        await open_panel()
        await expect(panel).to_contain_text(words["none"])
        await choose(archive(description="Greets people by name, in whatever language they like to be greeted in."))
        await expect(told).to_have_text(words["installed"])
        await expect(rows).to_have_count(1)
        await look("installed")

        await panel.locator(".skills-part").dispatch_event("drop", {"dataTransfer": await page.evaluate_handle(DROP)})
        await expect(fault).to_have_text(words["no_zip"])
        await choose(archive(body="Other.\n"))
        await expect(fault).to_have_text(words["exists"])
        await choose(archive(version="2.0.0"))
        await expect(rows).to_have_count(2)
        await panel.get_by_role("button", name=words["use"]).click()
        await expect(told).to_have_text(words["used"])
        await expect(rows.nth(1).locator(".skill-mark")).to_be_visible()
        await expect(rows.nth(0).locator(".skill-mark")).to_be_hidden()
        await look("two-versions")

        await panel.get_by_role("button", name=words["remove"]).click()
        await page.locator("dialog").last.get_by_role("button", name=words["sure"], exact=True).click()
        await expect(told).to_have_text(words["removed"])
        await expect(rows).to_have_count(1)
        await panel.get_by_role("button", name=words["close"], exact=True).click()
        if await page.locator("#shade").is_visible():
            await page.keyboard.press("Escape")

        fake.script(call("skill_run", skill="greet", script="hello.py", input="Ada"), text("She is **greeted**."))
        await bench.send("Greet Ada")
        await expect(page.locator(".ask-title")).to_have_text(words["asked"])
        await expect(page.locator(".ask-text")).to_contain_text("sys.stdin.read()")
        await look("asked")
        await bench.approve.click()
        await expect((await bench.answered(1)).locator("strong")).to_have_text("greeted")
        await look("used")
        assert wrong == []
        assert bench.faults == [one for one in bench.faults if "400" in one]
