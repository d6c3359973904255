"""A Run as a sequence diagram: every event has its row, every row its five sides, and both sides find each other."""

from playwright.async_api import expect

from tests.support.browser import Workbench, write
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text
from tests.support.gateway import Gateway

SECRET = "word-of-the-hidden-prompt"


async def _two_runs(gateway: Gateway, fake: FakeOllama) -> str:
    write(gateway, "notes.md", "a\n")
    write(gateway, "agent-builder.md", f"{SECRET}\n")
    fake.script(call("file_read_text", path="notes.md"), text("first answer"), text("second answer"))
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "first question")
    await gateway.run(conversation, "second question")
    return conversation


async def _open(bench: Workbench, conversation: str) -> None:
    await bench.sign_in()
    await bench.go_to(conversation)
    await expect(bench.turns).to_have_count(2)
    await bench.button("details", bench.topbar).click()


async def test_the_last_run_comes_back_from_the_journal_and_another_one_on_a_click(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await _two_runs(gateway, fake)
    async with Workbench.open(gateway) as bench:
        await _open(bench, conversation)
        rows = bench.page.locator(".event")
        await expect(bench.page.locator(".details-subject")).to_have_text("second question")
        await expect(rows.first).to_contain_text("message (projection)")
        await expect(rows.last).to_contain_text("Run completed")
        await bench.turns.first.get_by_role("button", name="Details of this Run").click()
        await expect(bench.page.locator(".details-subject")).to_have_text("first question")
        await expect(bench.page.locator(".event", has_text="file/read_text · done")).to_have_count(1)
        await expect(bench.turns.first).to_have_class("turn located")
        seqs = [int(words.split()[0]) for words in await rows.locator(".event-label").all_inner_texts() if words[0].isdigit()]
        assert seqs == sorted(set(seqs))
        assert bench.faults == []


async def test_events_that_could_not_be_read_are_missed_aloud_and_asked_for_again(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await _two_runs(gateway, fake)
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await page.route("**/replay?*", lambda route: route.fulfill(status=500, body=""))
        await _open(bench, conversation)
        await expect(page.locator("#details")).to_contain_text("The events could not be read")
        foot = bench.turns.first.locator(".foot")
        await expect(foot).to_contain_text("What this Run did could not be read")
        await page.unroute_all(behavior="wait")
        await page.locator("#details").get_by_role("button", name="Try again").click()
        await expect(page.locator(".event").last).to_contain_text("completed")
        await expect(page.locator("#details").get_by_role("button", name="Try again")).to_be_hidden()
        await foot.get_by_role("button", name="Try again").click()
        await expect(foot).to_contain_text("1 file read")


async def test_an_event_has_five_sides_and_none_shows_the_prompt(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await _two_runs(gateway, fake)
    async with Workbench.open(gateway) as bench:
        await _open(bench, conversation)
        page, panel = bench.page, bench.page.locator(".inspector-panel")
        contexts: list[str] = []
        page.on("request", lambda request: contexts.append(request.url) if request.url.endswith("/context") else None)
        await page.locator(".event", has_text="request · round").click()
        await expect(panel).to_contain_text("Harness → LLM")
        await expect(panel).to_contain_text("logical round")
        await expect(panel).to_contain_text("provider call")
        await page.get_by_role("tab", name="Message").click()
        await expect(panel).to_contain_text("carries no words")
        await page.get_by_role("tab", name="Payload").click()
        await expect(panel).to_contain_text('"round": 1')
        await page.get_by_role("tab", name="Envelope").click()
        await expect(panel).to_contain_text('"event_id"')
        await page.get_by_role("tab", name="Context").click()
        assert contexts == []
        await page.get_by_role("button", name="Read the context").click()
        await expect(panel.locator("tbody tr").first).to_be_visible()
        assert len(contexts) == 1
        assert SECRET not in await page.locator("body").inner_text()
        await page.locator(".event").first.click()
        await page.get_by_role("tab", name="Message").click()
        await expect(panel).to_have_text("second question")
        await page.get_by_role("tab", name="Payload").click()
        await expect(panel).to_contain_text("projection of the Turn")
        assert await bench.check_access() == []
        assert bench.faults == []


async def test_stepping_playing_and_filtering(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await _two_runs(gateway, fake)
    async with Workbench.open(gateway) as bench:
        await bench.page.clock.install()
        await _open(bench, conversation)
        page, rows, selected = bench.page, bench.page.locator(".event"), bench.page.locator(".event.selected")
        await expect(rows.last).to_contain_text("Run completed")
        count = await rows.count()
        await page.get_by_role("button", name="Next event").click()
        await expect(selected).to_contain_text("message (projection)")
        await page.get_by_role("button", name="Next event").click()
        await expect(selected).to_contain_text("Run started")
        await page.locator(".timeline").focus()
        await page.keyboard.press("End")
        await expect(selected).to_contain_text("Run completed")
        await page.keyboard.press("Home")
        await page.get_by_role("button", name="Play", exact=True).click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await page.clock.run_for(600 * (count + 1))
        await expect(selected).to_contain_text("Run completed")
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Filter").click()
        await page.get_by_role("menuitemcheckbox", name="Model calls").click()
        await expect(page.locator(".event", has_text="request")).to_have_count(0)
        assert 0 < await rows.count() < count


async def test_a_row_leads_back_to_its_turn(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("".join(f"line {number}\n\n" for number in range(80)), size=500), text("second answer"))
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "first question")
    await gateway.run(conversation, "second question")
    async with Workbench.open(gateway) as bench:
        await _open(bench, conversation)
        await bench.page.locator("#talk").evaluate("talk => { talk.scrollTop = 0 }")
        await expect(bench.page.locator(".user-text", has_text="second question")).not_to_be_in_viewport()
        await bench.page.locator(".event").nth(1).click()
        await expect(bench.page.locator(".user-text", has_text="second question")).to_be_in_viewport()


async def test_a_live_run_grows_row_by_row_but_not_with_each_piece_of_text(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("end"), before=begun("many pieces of text that come one by one")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await expect(bench.page.locator(".live-text")).to_contain_text("one by one")
        await bench.button("details", bench.topbar).click()
        await expect(bench.page.locator(".event", has_text="text ·").first).to_be_visible()
        assert await bench.page.locator(".event", has_text="text ·").count() <= 2
        gate.open()
        await expect(bench.page.locator(".event").last).to_contain_text("Run completed")
        await bench.keep_picture("details-live")
        assert bench.faults == []


async def test_the_events_of_a_run_without_a_journal_are_said_to_be_gone(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await _two_runs(gateway, fake)
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.page.route("**/replay*", lambda route: route.fulfill(json={"items": []}))
        await bench.go_to(conversation)
        await bench.button("details", bench.topbar).click()
        await expect(bench.page.get_by_text("no longer kept")).to_be_visible()
