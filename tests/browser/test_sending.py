"""One message is one Turn, and a draft is never lost."""

import asyncio

from playwright.async_api import Route, expect

from tests.support.browser import Workbench, write
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import Gateway

RUNS = "**/sessions/*/runs"


async def test_enter_and_send_at_once_on_a_slow_server_make_one_turn(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("once"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        released, posts = asyncio.Event(), []

        async def slow(route: Route) -> None:
            posts.append(route.request.post_data_json)
            await released.wait()
            await route.continue_()

        await bench.page.route(RUNS, slow)
        await bench.box.fill("only once")
        await bench.box.press("Enter")
        await bench.box.press("Enter")
        await bench.page.locator(".send").dispatch_event("click")
        await expect(bench.page.locator(".send")).to_be_disabled()
        released.set()
        await bench.answered(1)
        assert len(posts) == 1
        assert len((await gateway.ok("GET", f"{gateway.agent}/sessions"))["items"]) == 1


async def test_a_send_that_got_lost_keeps_the_draft_and_goes_again_under_the_same_id(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("arrived"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        posts: list[dict[str, object]] = []

        async def lost_answer(route: Route) -> None:
            posts.append(route.request.post_data_json)
            if len(posts) < 3:
                await route.fetch()
                await route.abort()
            else:
                await route.continue_()

        await bench.page.route(RUNS, lost_answer)
        await bench.box.fill("hello")
        await bench.box.press("Enter")
        await expect(bench.page.get_by_role("alert").get_by_text("cannot be reached")).to_be_visible()
        await expect(bench.box).to_have_value("hello")
        await bench.page.evaluate("dispatchEvent(new Event('focus'))")
        await bench.answered(1)
        await bench.box.press("Enter")
        await expect(bench.page.locator(".send")).to_be_enabled()
        await expect(await bench.answered(1)).to_contain_text("arrived")
        await bench.page.reload()
        await expect(bench.box).to_have_value("hello")
        await bench.box.press("Enter")
        await expect(bench.box).to_have_value("")
        await expect(await bench.answered(1)).to_contain_text("arrived")
        assert len(posts) == 3
        assert len({str(post["client_request_id"]) for post in posts}) == 1
        assert len(fake.chats) == 1


async def test_a_refused_first_message_stays_with_the_conversation_made_for_it(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("arrived"))
    refusal = {"error": {"code": "run_limit", "message": "", "retryable": True}}
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.page.route(RUNS, lambda route: route.fulfill(status=429, json=refusal))
        await bench.box.fill("hello")
        await bench.box.press("Enter")
        await expect(bench.page.get_by_role("alert").get_by_text("Four Runs are active")).to_be_visible()
        await expect(bench.box).to_have_value("hello")
        await bench.page.unroute_all(behavior="wait")
        await bench.box.press("Enter")
        await bench.answered(1)
        assert len((await gateway.ok("GET", f"{gateway.agent}/sessions"))["items"]) == 1


async def test_each_conversation_keeps_its_own_draft(gateway: Gateway) -> None:
    for title in ("first", "second"):
        await gateway.ok("POST", f"{gateway.agent}/sessions", {"title": title})
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.fill("for a new one")
        await bench.show_conversation("first")
        await bench.box.fill("for the first")
        await bench.show_conversation("second")
        await expect(bench.box).to_have_value("")
        await bench.box.fill("for the second")
        await bench.page.go_back()
        await expect(bench.box).to_have_value("for the first")
        await bench.page.reload()
        await expect(bench.box).to_have_value("for the first")
        await bench.start_new()
        await expect(bench.box).to_have_value("for a new one")


async def test_an_expired_session_leads_to_the_login_and_back_to_the_draft(gateway: Gateway) -> None:
    await gateway.ok("POST", f"{gateway.agent}/sessions", {"title": "kept"})
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.show_conversation("kept")
        await bench.box.fill("not lost")
        await gateway.restart()
        await bench.box.press("Enter")
        await expect(bench.page.get_by_text("Your session is over")).to_be_visible()
        await bench.keep_picture("expired")
        assert await bench.check_access() == []
        await bench.enter_token()
        await expect(bench.topbar.get_by_role("heading", name="kept")).to_be_visible()
        await expect(bench.box).to_have_value("not lost")


async def test_while_a_run_is_active_enter_keeps_the_text_and_says_so(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("done"), before=begun("first")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await bench.box.fill("the next one")
        await bench.box.press("Enter")
        await expect(bench.page.get_by_text("A Run is active")).to_be_visible()
        await expect(bench.box).to_have_value("the next one")
        gate.open()
        await bench.answered(1)
        await expect(bench.box).to_have_value("the next one")


async def test_named_files_become_chips_that_can_be_taken_away(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "notes.md", "a\n")
    write(gateway, "plan.md", "b\n")
    fake.script(text("seen"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.focus()
        await bench.page.keyboard.type("compare notes.md with @pl")
        await expect(bench.page.get_by_role("option", name="plan.md")).to_be_visible()
        await bench.page.keyboard.press("Enter")
        await expect(bench.box).to_have_value("compare notes.md with plan.md ")
        await bench.page.get_by_role("button", name="Do not attach notes.md").click()
        await bench.box.press("Enter")
        await bench.answered(1)
        await expect(bench.turns.last.locator(".chip")).to_have_text(["plan.md · 2 B"])


async def test_a_file_that_is_offered_can_be_attached_however_new_and_one_that_is_not_sends_nothing(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("seen"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        write(gateway, "new.md", "a\n")
        (gateway.workspace / "picture.bin").write_bytes(bytes(range(256)))
        await bench.box.focus()
        await bench.page.keyboard.type("look at @pict")
        await expect(bench.page.get_by_role("option", name="picture.bin")).to_have_attribute("aria-disabled", "true")
        await bench.page.keyboard.press("Enter")
        await expect(bench.box).to_have_value("look at @pict")
        assert await bench.turns.count() == 0
        await bench.box.fill("look at @new")
        offer = bench.page.get_by_role("option", name="new.md")
        await offer.dispatch_event("pointerdown")
        await expect(bench.box).to_have_value("look at @new")
        await offer.click()
        await expect(bench.box).to_have_value("look at new.md ")
        await expect(bench.box).to_be_focused()
        await expect(bench.page.get_by_role("button", name="Do not attach new.md")).to_be_visible()
        await bench.box.press("Enter")
        await bench.answered(1)
        await expect(bench.turns.last.locator(".chip")).to_have_text(["new.md · 2 B"])


async def test_a_click_on_stop_that_comes_too_late_does_not_send_what_is_written(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("done"), before=begun("first")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await bench.box.fill("not yet")
        await bench.page.evaluate("""() => new MutationObserver((_, watch) => { watch.disconnect(); document.querySelector('.send').click(); })
            .observe(document.querySelector('.send'), {attributeFilter: ['aria-label']})""")
        gate.open()
        await bench.answered(1)
        await expect(bench.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        await expect(bench.box).to_have_value("not yet")
        assert await bench.turns.count() == 1


async def test_a_conversation_that_another_tab_deleted_is_left_with_its_draft(gateway: Gateway) -> None:
    made = await gateway.ok("POST", f"{gateway.agent}/sessions", {"title": "doomed"})
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.show_conversation("doomed")
        await bench.box.fill("not lost")
        await gateway.ok("DELETE", f"{gateway.agent}/sessions/{made['conversation_id']}")
        await bench.page.evaluate("dispatchEvent(new Event('focus'))")
        await expect(bench.page.locator("#notes")).to_contain_text("was deleted in another place")
        await expect(bench.box).to_have_value("not lost")
        await expect(bench.topbar.get_by_role("heading", name="New conversation")).to_be_visible()


async def test_a_command_answers_without_a_turn(gateway: Gateway, fake: FakeOllama) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.focus()
        await bench.page.keyboard.type("/stat")
        await expect(bench.page.get_by_role("option", name="/status")).to_be_visible()
        await bench.page.keyboard.press("Enter")
        await bench.page.keyboard.press("Enter")
        await expect(bench.page.locator(".command-result pre")).to_contain_text("Active Runs")
        await bench.box.fill("/compact")
        await bench.page.keyboard.press("Enter")
        await expect(bench.page.get_by_role("button", name="Compact first")).to_be_visible()
        assert await bench.turns.count() == 0
        assert fake.chats == []


async def test_edit_and_retry_only_fill_the_composer(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("fine"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("again and again")
        await bench.answered(1)
        await bench.page.get_by_role("button", name="Edit and resend").click()
        await expect(bench.box).to_have_value("again and again")
        await expect(bench.box).to_be_focused()
        assert len(fake.chats) == 1
