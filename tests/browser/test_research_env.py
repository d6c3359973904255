"""The section "Documents" of an Agent's panel: install with progress, refusal, failure, another try, what is installed, removal."""

import asyncio
import shutil

from playwright.async_api import Locator, expect

from tests.support.browser import DESKTOP, PHONE, Workbench
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import Gateway
from tests.support.research import HANGING, equip, installer_started, left_of, route, script_installer, until

WORDS = {
    "en-US": {"more": "Actions for Agent Assistant", "panel": "Documents, Skills and Tasks…", "section": "Documents", "install": "Install", "again": "Try again",
              "remove": "Remove", "stop": "Stop", "absent": "Not installed", "installed": "Installed on", "full": "The disk is full.",
              "busy": "The Agent is working.", "downloading": "Downloading: 0 of 7 packages are there", "packages": "7 packages"},
    "zh-CN": {"more": "Agent Assistant 的操作", "panel": "文档、Skill 与 Task…", "section": "文档", "install": "安装", "again": "重试",
              "remove": "移除", "stop": "停止", "absent": "未安装", "installed": "安装于", "full": "磁盘已满。",
              "busy": "该 Agent 正在工作。", "downloading": "正在下载：已就绪 0/7 个软件包", "packages": "7 个软件包"},
}  # fmt: skip


FULL = "echo 'No space left on device' >&2; exit 2"


async def test_an_operator_sees_why_not_how_far_and_what_went_wrong(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    script_installer(gateway.root, HANGING)
    fake.script(gated(gate, text("done"), begun("one ")))
    async with Workbench.open(gateway, DESKTOP, color_scheme="light") as bench:
        await bench.sign_in()
        await bench.send("hello")
        section = await opened(bench)
        await expect(section.root).to_contain_text(section.words["absent"])
        await section.press("install").click()
        await expect(section.root.get_by_role("alert")).to_contain_text(section.words["busy"])
        await section.look("busy")
        gate.open()
        await bench.completed_unseen()
        await idle(gateway)

        await section.press("install").click()
        await installer_started(gateway.root)
        await expect(section.root).to_contain_text(section.words["downloading"])
        await expect(section.press("stop")).to_be_focused()
        await expect(section.root.get_by_role("progressbar")).to_be_visible()
        await section.look("progress")
        await section.press("stop").click()
        await expect(section.press("install")).to_be_focused()
        assert left_of(gateway) == []

        script_installer(gateway.root, FULL)
        await section.press("install").click()
        await expect(section.root.get_by_role("alert")).to_contain_text(section.words["full"])
        await section.look("failed")
        assert section.wrong == []
        assert [fault for fault in bench.faults if "409" not in fault] == []


async def test_an_operator_installs_and_removes_it(gateway: Gateway) -> None:
    script_installer(gateway.root, FULL)
    await gateway.ok("POST", route())
    await until(gateway, "failed")
    async with Workbench.open(gateway, PHONE, locale="zh-CN", color_scheme="dark") as bench:
        await bench.sign_in()
        section = await opened(bench)
        await expect(section.root.get_by_role("alert")).to_contain_text(section.words["full"])
        await section.look("failed")
        shutil.rmtree(gateway.root / ".tools")
        equip(gateway.root)
        await section.press("again").click()
        await expect(section.root).to_contain_text(section.words["installed"], timeout=60_000)
        await section.root.get_by_text(section.words["packages"]).click()
        await expect(section.root.get_by_role("definition").filter(has_text="6.14.2")).to_be_visible()
        await section.look("installed")
        await section.press("remove").click()
        await bench.page.get_by_role("dialog").last.get_by_role("button", name=section.words["remove"], exact=True).click()
        await expect(section.root).to_contain_text(section.words["absent"])
        assert (await gateway.ok("GET", route()))["state"] == "absent"
        assert section.wrong == []
        assert bench.faults == []


class _Section:
    """The section as its reader sees it. `wrong` collects what is not right with a state."""

    def __init__(self, bench: Workbench) -> None:
        self.bench, self.words = bench, WORDS[bench.locale]
        self.root = bench.page.get_by_role("region", name=self.words["section"], exact=True)
        self.wrong: list[str] = []

    def press(self, word: str) -> Locator:
        return self.root.get_by_role("button", name=self.words[word], exact=True)

    async def look(self, state: str) -> None:
        width = self.bench.page.viewport_size["width"] if self.bench.page.viewport_size else 0
        await self.bench.keep_picture(f"research-{width}-{state}")
        self.wrong += [f"{state}: {fault}" for fault in await self.bench.check_access()]
        self.wrong += [f"{state} scrolls sideways"] if await self.bench.scrolls_sideways() else []


async def opened(bench: Workbench) -> _Section:
    """In the panel of the default Agent."""
    section = _Section(bench)
    if await bench.button("nav").is_visible():
        await bench.button("nav").click()
    await bench.page.locator("[aria-controls=agent-list]").click()
    await bench.page.get_by_role("button", name=section.words["more"]).click()
    await bench.page.get_by_role("menuitem", name=section.words["panel"]).click()
    return section


async def idle(gateway: Gateway) -> None:
    """Returns when no Run is left, not even one whose Worker is being ended."""
    async with asyncio.timeout(20):
        while (await gateway.ok("GET", "/health"))["active_runs"]:
            await asyncio.sleep(0.01)
