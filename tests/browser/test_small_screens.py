"""A phone: the composer stays above the keyboard, drawers exclude each other, fingers find their targets."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.support.browser import PHONE, Workbench, write
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text
from tests.support.gateway import Gateway, catalog

NARROWEST = (320, 568)
KEYBOARD = """height => {
  Object.defineProperty(visualViewport, 'height', {value: innerHeight - height, configurable: true});
  visualViewport.dispatchEvent(new Event('resize'));
}"""


@pytest.mark.parametrize("size", [NARROWEST, (390, 844), (500, 390)], ids=["narrowest", "usual", "sideways"])
async def test_with_the_keyboard_open_writing_and_stopping_stay_in_reach(gateway: Gateway, fake: FakeOllama, size: tuple[int, int]) -> None:
    fake.script(gated(Gate(), text("never"), before=begun("half")))
    async with Workbench.open(gateway, size) as bench:
        await bench.sign_in()
        await bench.send("go")
        await bench.box.fill("\n".join(f"line {number}" for number in range(30)))
        keyboard = min(300, size[1] - 240)
        await bench.page.evaluate(KEYBOARD, keyboard)
        for part in (bench.box, bench.page.locator(".send"), bench.page.locator("#stage").get_by_role("button", name="Stop")):
            box = await part.bounding_box()
            assert box is not None
            assert box["y"] >= 0 and box["y"] + box["height"] <= size[1] - keyboard
        assert not await bench.scrolls_sideways()
        assert await bench.box.evaluate("box => parseFloat(getComputedStyle(box).fontSize)") >= 16


async def test_with_the_keyboard_open_on_the_smallest_screen_a_change_is_seen_where_it_is_approved(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "notes.md", "teh\n")
    fake.script(call("file_read_text", path="notes.md"), call("file_edit", path="notes.md", old="teh", new="the"), text("done"))
    async with Workbench.open(gateway, NARROWEST) as bench:
        await bench.sign_in()
        await bench.send("correct it")
        await expect(bench.approve).to_be_enabled()
        await bench.page.evaluate(KEYBOARD, 250)
        await bench.box.fill("a draft\n" * 12)
        for part in (bench.approve, bench.page.locator(".diff-line.add"), bench.box, bench.page.locator(".send")):
            box = await part.bounding_box()
            assert box is not None
            assert box["y"] >= 0 and box["y"] + box["height"] <= NARROWEST[1] - 250


@pytest.mark.parametrize("keyboard", [220, 300])
async def test_with_the_keyboard_open_a_decision_and_a_refusal_are_seen_and_taken(gateway: Gateway, fake: FakeOllama, keyboard: int) -> None:
    write(gateway, "notes.md", "teh\n")
    fake.script(call("file_read_text", path="notes.md"), call("file_edit", path="notes.md", old="teh", new="the"), text("done"))
    async with Workbench.open(gateway, (390, 844)) as bench:
        await bench.sign_in()
        await bench.page.route("**/commands", lambda route: route.fulfill(status=500, body="") if route.request.method == "POST" else route.continue_())
        await bench.send("correct it")
        await bench.page.evaluate(KEYBOARD, keyboard)
        await bench.box.fill("/status\n" * 30)
        await bench.box.press("Enter")
        error, deny = bench.page.get_by_role("alert").get_by_text("unexpected answer"), bench.page.get_by_role("button", name="Deny…")
        change = bench.page.locator(".ask-preview")  # nothing is approved that is not in sight
        await expect(change).to_contain_text("the")
        for part in (error, change, bench.approve, deny, bench.box, bench.page.locator(".send"), bench.page.locator("#stage").get_by_role("button", name="Stop")):
            await expect(part).to_be_visible()
            box = await part.bounding_box()
            assert box is not None
            assert box["y"] >= 0 and box["y"] + box["height"] <= 844 - keyboard
        assert not await bench.scrolls_sideways()
        await bench.approve.click()
        await bench.answered(1)
        await expect(bench.box).to_be_focused()
        assert (gateway.workspace / "notes.md").read_text() == "the\n"


async def test_an_approval_with_a_long_preview_can_be_decided_on_the_smallest_screen(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "long.txt", "a\n")
    content = "\n".join(f"line {number} {'x' * 60}" for number in range(50))
    fake.script(call("file_read_text", path="long.txt"), call("file_edit", path="long.txt", old="a", new=content), text("done"))
    async with Workbench.open(gateway, NARROWEST) as bench:
        await bench.sign_in()
        await bench.send("edit")
        await expect(bench.approve).to_be_in_viewport(ratio=1)
        await expect(bench.page.get_by_role("button", name="Deny…")).to_be_in_viewport(ratio=1)
        assert not await bench.scrolls_sideways()
        await expect(bench.page.locator(".diff-line").last).to_contain_text("line 49")
        await bench.page.get_by_role("button", name="Deny…").click()
        await bench.page.get_by_label("Reason for the model").fill("too long")
        await bench.page.keyboard.press("Enter")
        await bench.answered(1)
        assert "too long" in str(fake.chats[-1]["messages"])
        assert (gateway.workspace / "long.txt").read_text() == "a\n"


async def test_offers_stay_in_sight_between_the_top_and_the_keyboard(gateway: Gateway) -> None:
    for number in range(20):
        write(gateway, f"notes-{number:02}.md", "a\n")
    async with Workbench.open(gateway, NARROWEST) as bench:
        await bench.sign_in()
        await bench.page.evaluate(KEYBOARD, 300)
        await bench.box.focus()
        await bench.page.keyboard.type("@notes")
        await expect(bench.page.locator(".offer")).to_have_count(20)
        for _ in range(3):
            await bench.page.keyboard.press("ArrowUp")
        for part in (bench.page.get_by_role("listbox", name="Suggestions"), bench.page.locator(".offer[aria-selected=true]"), bench.box):
            box = await part.bounding_box()
            assert box is not None
            assert box["y"] >= 0 and box["y"] + box["height"] <= NARROWEST[1] - 300


async def test_drawers_exclude_each_other_and_close_with_escape_and_back(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("ok"))
    async with Workbench.open(gateway, PHONE) as bench:
        page = bench.page
        await bench.sign_in()
        await bench.send("hello")
        await bench.answered(1)
        sidebar, details = page.locator("#sidebar"), page.locator("#details")
        place = page.url
        await bench.button("nav").click()
        await expect(sidebar).to_be_visible()
        assert await page.locator("#main").evaluate("main => main.inert")
        await bench.keep_picture("phone-drawer")
        assert await bench.check_access() == []
        await page.keyboard.press("Escape")
        await expect(sidebar).to_be_hidden()
        await bench.button("details", bench.topbar).click()
        await expect(details).to_be_visible()
        await expect(sidebar).to_be_hidden()
        await page.go_back()
        await expect(details).to_be_hidden()
        assert page.url == place
        await expect(bench.turns).to_have_count(1)
        assert bench.faults == []


async def test_fingers_find_targets_of_44_pixels(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("```js\nx\n```"))
    async with Workbench.open(gateway, PHONE) as bench:
        await bench.sign_in()
        await bench.send("hello")
        await bench.answered(1)
        small = await bench.page.evaluate("""() => [...document.querySelectorAll('#main button, #main select')]
            .filter(each => each.checkVisibility())
            .map(each => [each.getAttribute('aria-label') ?? each.textContent, Math.round(each.getBoundingClientRect().height)])
            .filter(([, height]) => height < 44)""")
        assert small == []


async def test_text_of_twice_the_size_fits(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("An answer with **words**."))
    async with Workbench.open(gateway, PHONE) as bench:
        await bench.sign_in()
        await bench.page.evaluate("document.documentElement.style.fontSize = '200%'")
        await bench.send("hello")
        await bench.answered(1)
        await bench.keep_picture("phone-200-percent")
        assert not await bench.scrolls_sideways()
        await expect(bench.page.locator(".send")).to_be_in_viewport(ratio=1)


async def test_with_reduced_motion_nothing_moves(gateway: Gateway) -> None:
    async with Workbench.open(gateway, PHONE, reduced_motion="reduce") as bench:
        await bench.sign_in()
        moving = await bench.page.evaluate("""() => [...document.querySelectorAll('*')].filter(each => {
            const style = getComputedStyle(each);
            return style.animationName !== 'none' || style.transitionDuration.split(',').some(time => parseFloat(time) > 0);
        }).map(each => each.className)""")
        assert moving == []


async def test_zooming_is_not_forbidden(gateway: Gateway) -> None:
    async with Workbench.open(gateway, PHONE) as bench:
        await bench.sign_in()
        viewport = await bench.page.locator("meta[name=viewport]").get_attribute("content")
        assert viewport is not None
        assert "user-scalable" not in viewport
        assert "maximum-scale" not in viewport


async def test_a_long_name_of_the_model_gives_way_to_the_meter(tmp_path: Path, fake: FakeOllama) -> None:
    names = catalog(fake.port).replace('label = "Test"', 'label = "A model with a name as long as local ones have"')
    async with Gateway(tmp_path, fake.port, catalog_text=names) as gateway, Workbench.open(gateway, PHONE, locale="zh-CN") as bench:
        conversation = await gateway.new_conversation()
        for _ in range(3):
            await gateway.run(conversation, "hello")
        await bench.sign_in()
        await bench.go_to(conversation)
        left = bench.page.locator(".meter-left")
        await expect(left).to_contain_text("%")
        assert await left.evaluate("words => words.scrollWidth <= words.clientWidth")
