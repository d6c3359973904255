"""The page follows the newest line only while the reader is there."""

from playwright.async_api import expect

from tests.support.browser import Workbench
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import Gateway

LINES = "".join(f"line {number}\n\n" for number in range(80))
TALK = "#talk"


async def _top(bench: Workbench) -> int:
    return int(await bench.page.locator(TALK).evaluate("talk => talk.scrollTop"))


async def _below(bench: Workbench) -> int:
    """Pixels between what is seen and the end."""
    return int(await bench.page.locator(TALK).evaluate("talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight"))


async def _offset(bench: Workbench, words: str) -> float:
    box = await bench.page.get_by_text(words, exact=True).first.bounding_box()
    assert box is not None
    return box["y"]


async def _first_line_in_sight(bench: Workbench) -> str:
    return str(await bench.page.locator(TALK).evaluate('''talk => [...talk.querySelectorAll(".live-text p")]
        .find(line => line.textContent && line.getBoundingClientRect().top >= talk.getBoundingClientRect().top).textContent'''))


async def test_a_reader_who_scrolled_back_stays_where_he_is_until_he_asks(gateway: Gateway, fake: FakeOllama) -> None:
    half, rest = Gate(), Gate()
    fake.script(gated(half, gated(rest, text("the very end"), before=begun(LINES)), before=begun(LINES)))
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await bench.sign_in()
        await bench.send("much")
        await expect(page.locator(".live-text")).to_contain_text("line 79")
        assert await _below(bench) <= 1
        await page.locator(TALK).hover()
        await page.mouse.wheel(0, -300)
        await expect(page.get_by_role("button", name="Back to latest")).to_be_visible()
        await page.evaluate("getSelection().selectAllChildren(document.querySelector('.live-text p'))")
        place, selected = await _top(bench), await page.evaluate("String(getSelection())")
        half.open()
        await expect(page.locator(".live-text").get_by_text("line 79", exact=True)).to_have_count(2)
        assert await _top(bench) == place
        assert await page.evaluate("String(getSelection())") == selected == "line 0"
        seen = await _first_line_in_sight(bench)
        before = await _offset(bench, seen)
        rest.open()
        await bench.answered(1)
        assert abs(await _offset(bench, seen) - before) <= 1
        await expect(page.get_by_role("button", name="Back to latest")).to_be_visible()
        await page.get_by_role("button", name="Back to latest").click()
        await expect(page.get_by_text("the very end")).to_be_in_viewport()
        await expect(page.get_by_role("button", name="Back to latest")).to_be_hidden()


async def test_a_reader_at_the_end_is_taken_along_to_the_end(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text(LINES + "the very end", size=40))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("much")
        await bench.answered(1)
        await expect(bench.page.get_by_text("the very end")).to_be_in_viewport()
        assert await _below(bench) <= 1


async def test_page_up_pauses_and_end_follows_again(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text(LINES), before=begun(LINES)))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("much")
        await expect(bench.page.locator(".live-text")).to_contain_text("line 79")
        await bench.page.locator(TALK).focus()
        await bench.page.keyboard.press("PageUp")
        await expect(bench.page.get_by_role("button", name="Back to latest")).to_be_visible()
        await bench.page.keyboard.press("End")
        await expect(bench.page.get_by_role("button", name="Back to latest")).to_be_hidden()
        gate.open()
        await bench.answered(1)
        assert await _below(bench) <= 1


async def test_earlier_turns_come_in_above_and_details_beside_without_moving_what_is_read(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    for number in range(34):
        await gateway.run(conversation, f"question {number}")
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.go_to(conversation)
        await expect(bench.turns).to_have_count(32)
        fake.script(gated(gate := Gate(), text("the very end"), before=begun(LINES)))
        await bench.send("much")
        await expect(bench.page.locator(".live-text")).to_contain_text("line 79")
        await bench.page.locator(TALK).evaluate("talk => { talk.scrollTop = 0 }")
        before = await _offset(bench, "question 3")
        await bench.page.get_by_role("button", name="Load earlier Turns").click()
        await expect(bench.turns).to_have_count(35)
        assert abs(await _offset(bench, "question 3") - before) <= 1
        await expect(bench.page.get_by_role("button", name="Load earlier Turns")).to_have_count(0)
        await bench.button("details", bench.topbar).click()
        await expect(bench.page.locator(".event").first).to_be_visible()
        await bench.button("close_details").click()
        assert abs(await _offset(bench, "question 3") - before) <= 1
        gate.open()
        await expect(bench.turns.last).not_to_have_attribute("aria-busy", "true")
        assert abs(await _offset(bench, "question 3") - before) <= 1
        assert bench.faults == []


async def test_a_cursor_from_before_a_rename_is_replaced_by_itself(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    for number in range(34):
        await gateway.run(conversation, f"question {number}")
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.go_to(conversation)
        await expect(bench.turns).to_have_count(32)
        await gateway.ok("PATCH", f"{gateway.agent}/sessions/{conversation}", {"title": "renamed elsewhere"})
        await bench.page.get_by_role("button", name="Load earlier Turns").click()
        await expect(bench.turns).to_have_count(34)
        await expect(bench.page.locator(".user-text").first).to_have_text("question 0")
