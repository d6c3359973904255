"""The section "Documents" of an Agent's panel: install with progress, refusal, failure, another try, what is installed, removal."""

import shutil

import pytest
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
              "busy": "该 Agent 正在工作。", "downloading": "正在下载：共 7 个软件包，已就绪 0 个", "packages": "7 个软件包"},
}  # fmt: skip


@pytest.mark.parametrize(("size", "theme", "locale"), [
    pytest.param(DESKTOP, "light", "en-US", id="desktop-light-english"), pytest.param(PHONE, "dark", "zh-CN", id="phone-dark-chinese"),
])
async def test_an_operator_installs_and_removes_it(gateway: Gateway, fake: FakeOllama, size: tuple[int, int], theme: str, locale: str) -> None:
    words, gate, wrong = WORDS[locale], Gate(), []
    script_installer(gateway.root, HANGING)
    fake.script(gated(gate, text("done"), begun("one ")))
    async with Workbench.open(gateway, size, locale=locale, color_scheme=theme) as bench:
        await bench.sign_in()
        await bench.send("hello")
        section = await opened(bench, words)
        press = {name: section.get_by_role("button", name=words[name], exact=True) for name in ("install", "again", "remove", "stop")}

        async def look(state: str) -> None:
            await bench.keep_picture(f"research-{size[0]}-{state}")
            wrong.extend(await bench.check_access())
            wrong.extend([f"{state} scrolls sideways"] if await bench.scrolls_sideways() else [])

        await expect(section).to_contain_text(words["absent"])
        await press["install"].click()
        await expect(section.get_by_role("alert")).to_contain_text(words["busy"])
        await look("busy")
        gate.open()
        await bench.completed_unseen()
        await until(gateway, "absent")
        await press["install"].click()
        await installer_started(gateway.root)
        await expect(section).to_contain_text(words["downloading"])
        await expect(press["stop"]).to_be_focused()
        await expect(section.get_by_role("progressbar")).to_be_visible()
        await look("progress")
        await press["stop"].click()
        await expect(press["install"]).to_be_focused()
        assert left_of(gateway) == []

        script_installer(gateway.root, "echo 'No space left on device' >&2; exit 2")
        await press["install"].click()
        await expect(section.get_by_role("alert")).to_contain_text(words["full"])
        await look("failed")
        equip_anew(gateway)
        await press["again"].click()
        await expect(section).to_contain_text(words["installed"], timeout=60_000)
        await section.get_by_text(words["packages"]).click()
        await expect(section.get_by_role("definition").filter(has_text="6.14.2")).to_be_visible()
        await look("installed")
        await press["remove"].click()
        await bench.page.get_by_role("dialog").last.get_by_role("button", name=words["remove"], exact=True).click()
        await expect(section).to_contain_text(words["absent"])
        assert (await gateway.ok("GET", route()))["state"] == "absent"
        assert wrong == []
        assert [fault for fault in bench.faults if "409" not in fault] == []


async def opened(bench: Workbench, words: dict[str, str]) -> Locator:
    """The section, in the panel of the default Agent."""
    if await bench.button("nav").is_visible():
        await bench.button("nav").click()
    await bench.page.locator("[aria-controls=agent-list]").click()
    await bench.page.get_by_role("button", name=words["more"]).click()
    await bench.page.get_by_role("menuitem", name=words["panel"]).click()
    return bench.page.get_by_role("region", name=words["section"], exact=True)


def equip_anew(gateway: Gateway) -> None:
    """The real installer in the place of the scripted one."""
    shutil.rmtree(gateway.root / ".tools")
    equip(gateway.root)
