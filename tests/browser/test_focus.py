"""Whoever uses the keyboard keeps a place: what held it gives it to something near when it disappears."""

from playwright.async_api import expect

from tests.support.browser import PHONE, Workbench, write
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import Gateway


async def test_on_a_narrow_page_drawers_take_the_focus_and_give_it_back(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("ok"))
    async with Workbench.open(gateway, PHONE) as bench:
        page = bench.page
        await bench.sign_in()
        await bench.send("hello")
        await bench.answered(1)
        await bench.button("nav").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#sidebar button").first).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(bench.button("nav")).to_be_focused()
        opener = bench.button("details", bench.topbar)
        await opener.focus()
        await page.keyboard.press("Enter")
        await expect(bench.button("close_details")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(opener).to_be_focused()
        await expect(page.locator("#details")).to_be_hidden()


async def test_the_subject_of_the_details_shows_its_turn_on_a_phone(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    for number in range(8):
        await gateway.run(conversation, f"question {number}")
    async with Workbench.open(gateway, PHONE) as bench:
        await bench.sign_in()
        await bench.go_to(conversation)
        await expect(bench.turns).to_have_count(8)
        await bench.page.locator("#talk").evaluate("talk => { talk.scrollTop = 0 }")
        await bench.button("details", bench.topbar).click()
        await bench.page.get_by_title("Show this Turn").click()
        await expect(bench.page.locator("#details")).to_be_hidden()
        await expect(bench.page.locator(".user-text").last).to_be_in_viewport(ratio=1)


async def test_a_decision_leaves_the_focus_at_the_composer(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("done"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("correct it")
        await expect(bench.approve).to_be_enabled()
        await bench.approve.focus()
        await bench.page.keyboard.press("Enter")
        await bench.answered(1)
        await expect(bench.box).to_be_focused()


async def test_what_is_taken_away_gives_the_focus_to_its_neighbour(gateway: Gateway, fake: FakeOllama) -> None:
    for name in ("a.md", "b.md"):
        write(gateway, name, "x\n")
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await gateway.ok("POST", f"{gateway.agent}/sessions", {"title": "doomed"})
        await bench.sign_in()
        await bench.box.fill("compare a.md with b.md")
        await page.get_by_role("button", name="Do not attach a.md").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Do not attach b.md")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(bench.box).to_be_focused()
        await bench.box.fill("/status")
        await bench.box.press("Enter")
        await page.locator(".command-result").get_by_role("button", name="Close").focus()
        await page.keyboard.press("Enter")
        await expect(bench.box).to_be_focused()
        await bench.show_conversation("doomed")
        await bench.button("actions", bench.topbar).click()
        await page.get_by_role("menuitem", name="Delete…").click()
        await page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
        await expect(page.locator(".conversation-rows .row-open")).to_have_count(1)
        await expect(bench.box).to_be_focused()


async def test_earlier_turns_leave_the_focus_in_the_conversation(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    for number in range(33):
        await gateway.run(conversation, f"question {number}")
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.go_to(conversation)
        await bench.page.get_by_role("button", name="Load earlier Turns").focus()
        await bench.page.keyboard.press("Enter")
        await expect(bench.turns).to_have_count(33)
        await expect(bench.page.locator("#talk")).to_be_focused()
