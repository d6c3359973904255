"""A background Task as one meets it on the page: none yet, started from a Run, told, read in the panel, stopped."""

import pytest
from playwright.async_api import expect

from tests.support.browser import DESKTOP, PHONE, Workbench, write
from tests.support.capability import SLOW
from tests.support.fake_ollama import FakeOllama, text
from tests.support.gateway import Gateway

ENGLISH = {
    "none": "No Tasks yet.", "close": "Close", "more": "More about this Run", "start": "Check *.py files",
    "found": "Check of the *.py files: syntax errors found.", "show": "Show Tasks", "faults": "syntax errors found", "result": "Result",
}
CHINESE = {
    "none": "还没有 Task。", "close": "关闭", "more": "此运行的更多操作", "start": "检查 *.py 文件", "found": "*.py 文件检查：发现语法错误。",
    "show": "查看 Task", "faults": "发现语法错误", "result": "结果",
}
LOOKS = [
    pytest.param(DESKTOP, "light", "en-US", ENGLISH, id="desktop-light-english"), pytest.param(PHONE, "dark", "zh-CN", CHINESE, id="phone-dark-chinese"),
]


@pytest.mark.parametrize(("size", "theme", "locale", "words"), LOOKS)
async def test_a_check_beside_the_conversation(
    gateway: Gateway, fake: FakeOllama, size: tuple[int, int], theme: str, locale: str, words: dict[str, str]
) -> None:
    write(gateway, "bad.py", "x = 1\ndef f(:\n")
    fake.script(text("An answer."))
    await gateway.run(conversation := await gateway.new_conversation(), "hello")
    async with Workbench.open(gateway, size, locale=locale, color_scheme=theme) as bench:
        page, wrong = bench.page, []

        async def look(state: str) -> None:
            await bench.keep_picture(f"{size[0]}-{theme}-{locale}-tasks-{state}")
            wrong.extend(await bench.check_access())
            if await bench.scrolls_sideways():
                wrong.append(f"{state}: scrolls sideways")

        await bench.sign_in()
        await bench.go_to(conversation)
        await bench.answered(1)
        await bench.button("details", bench.topbar).click()
        panel, details = page.locator("dialog.agent-sections"), page.locator("#details")

        await details.get_by_role("button", name=words["more"]).click()
        await look("menu")
        await page.get_by_role("menuitem", name=f"{words['show']}…").click()
        await expect(panel).to_contain_text(words["none"])
        await look("none")
        await panel.get_by_role("button", name=words["close"]).click()
        await expect(details.get_by_role("button", name=words["more"])).to_be_focused()

        await details.get_by_role("button", name=words["more"]).click()
        await page.get_by_role("menuitem", name=words["start"]).click()
        await expect(details.get_by_role("status")).to_have_text(words["found"])
        await look("told")
        await details.get_by_role("button", name=words["show"], exact=True).click()
        rows = panel.locator(".task")
        await expect(rows).to_have_count(1)
        await expect(rows.first.locator(".task-state")).to_have_text(words["faults"])
        await rows.first.locator("summary", has_text=words["result"]).click()
        await expect(rows.first.locator("pre")).to_contain_text("bad.py:2: ")
        await look("result")
        assert (wrong, bench.faults) == ([], [])


async def test_tasks_that_go_on_are_seen_and_stopped(gateway: Gateway, fake: FakeOllama) -> None:
    for number in range(12):
        write(gateway, f"{number}.py", SLOW)
    run = await gateway.run(await gateway.new_conversation(), "hello")
    for _ in range(2):
        await gateway.ok("POST", f"{gateway.agent}/runs/{run.run_id}/tasks", {"kind": "runtime-compile"})
    async with Workbench.open(gateway) as bench:
        page, rows = bench.page, bench.page.locator(".task")
        await bench.sign_in()
        await page.get_by_role("button", name="Agent Assistant: show all Agents").click()
        await page.get_by_role("button", name="Actions for Agent Assistant").click()
        await page.get_by_role("menuitem", name="Documents, Skills and Tasks…").click()
        await expect(rows).to_have_count(2)
        await expect(rows.first.locator(".task-state")).to_have_text("waiting for its turn")
        await bench.keep_picture("1440-tasks-active")
        for at in range(2):
            await rows.nth(at).get_by_role("button", name="Stop").click()
            await expect(rows.nth(at).locator(".task-state")).to_have_text("stopped")
        assert (await bench.check_access(), bench.faults) == ([], [])
    assert [task["state"] for task in (await gateway.ok("GET", f"{gateway.agent}/tasks"))["items"]] == ["cancelled", "cancelled"]
