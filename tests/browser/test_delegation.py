"""A delegation as the operator sees it: approved, followed while it goes on, decided in the other Agent, looked at afterwards."""

import pytest
from playwright.async_api import expect

from tests.support.browser import DESKTOP, PHONE, Workbench
from tests.support.delegating import two_agents
from tests.support.fake_ollama import FakeOllama, Gate, call, gated, text
from tests.support.gateway import Gateway

WRITE = call("file_write", path="note.txt", content="hello\n")
SAID = {
    "en-US": {"waits": "waits for your decision", "done": "has answered", "run": "Open Run details", "open": "Open Conversation", "gone": "has been deleted"},
    "zh-CN": {"waits": "等待你的决定", "done": "已作答", "run": "打开运行详情", "open": "打开会话", "gone": "已被删除"},
}


@pytest.mark.parametrize(("size", "theme", "locale"), [(DESKTOP, "dark", "en-US"), (PHONE, "light", "zh-CN")])
async def test_a_delegation_is_followed_from_its_card(gateway: Gateway, fake: FakeOllama, size: tuple[int, int], theme: str, locale: str) -> None:
    two, gate, said = await two_agents(gateway, fake, "Bob <i>的"), Gate(), SAID[locale]
    async with Workbench.open(gateway, size, locale=locale, color_scheme=theme) as bench:
        page, card = bench.page, bench.page.locator(".subagent")
        await bench.sign_in()
        fake.script(two.ask("Write a note,\n+++ please"), WRITE, gated(gate, text("I wrote it.")), text("Bob wrote a note."))
        await bench.send("Let Bob write a note")
        await expect(page.locator(".ask-title")).to_contain_text("Bob <i>的")
        await expect(page.locator(".ask-text")).to_contain_text("+++ please")
        await expect(bench.approve).to_be_enabled()
        await bench.keep_picture(f"delegation-{size[0]}-ask")
        await bench.approve.click()

        await expect(card.locator(".subagent-state")).to_contain_text(said["waits"])
        await card.locator("summary").click()
        await expect(card.locator(".subagent-letter")).to_have_count(1)
        assert await bench.check_access() == []
        await bench.keep_picture(f"delegation-{size[0]}-waits")
        await card.get_by_role("button", name=said["open"]).click()
        await expect(page.locator(".user-text")).to_contain_text("+++ please")
        await bench.approve.click()
        gate.open()
        await expect(await bench.answered(1)).to_contain_text("I wrote it.")

        await page.go_back()
        await expect(await bench.answered(1)).to_contain_text("Bob wrote a note.")
        await expect(card.locator(".subagent-state")).to_contain_text(said["done"])
        await card.locator("summary").click()
        await expect(card.locator(".subagent-letter p").last).to_have_text("I wrote it.")
        assert await bench.check_access() == []
        assert not await bench.scrolls_sideways()
        await bench.keep_picture(f"delegation-{size[0]}-done")

        await card.get_by_role("button", name=said["run"]).click()
        await expect(page.locator(".details-subject")).to_contain_text("Write a note")
        await expect(page.locator(".event").first).to_be_visible()
        await bench.keep_picture(f"delegation-{size[0]}-run")
        await bench.button("close_details").click()
        await gateway.ok("DELETE", two.bob)
        await two.other_gone()
        await bench.go_to((await gateway.ok("GET", f"{gateway.agent}/sessions"))["items"][0]["conversation_id"])
        await expect(card.get_by_text(said["gone"])).to_be_visible()
        await expect(card.get_by_role("button")).to_have_count(0)
        assert bench.faults == []
