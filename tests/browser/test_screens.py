"""What the page shows when there is no answer: it says what happened, what was kept and what can be done."""

import json

from playwright.async_api import Route, expect

from tests.support.browser import DESKTOP, PHONE, Workbench, write
from tests.support.fake_ollama import FakeOllama, call, status, text
from tests.support.gateway import Gateway

STATES = {
    "model-unavailable": {"models": [{"available": False, "reason": "The model server refuses connections.", "reason_code": "model_unavailable"}]},
    "no-model": {"models": []},
    "starting": {"health": {"status": "loading"}},
    "draining": {"health": {"status": "draining"}},
    "agent-draining": {"phase": "draining"},
    "agent-damaged": {"phase": "damaged"},
}
SAYS = {
    "model-unavailable": "The model server cannot be reached",
    "no-model": "No model is set up",
    "starting": "The server is starting",
    "draining": "The server is shutting down",
    "agent-draining": "finishing its work and takes no new messages",
    "agent-damaged": "data is damaged",
}


async def _pretend(bench: Workbench, state: dict[str, object]) -> None:
    """Changes single fields of the real answers, as the server would in that state."""

    async def models(route: Route) -> None:
        answer = await (await route.fetch()).json()
        items = state["models"]
        assert isinstance(items, list)
        await route.fulfill(json={"items": [{**answer["items"][0], **item} for item in items]})

    async def health(route: Route) -> None:
        change = state["health"]
        assert isinstance(change, dict)
        await route.fulfill(json={**await (await route.fetch()).json(), **change})

    async def agents(route: Route) -> None:
        answer = await (await route.fetch()).json()
        await route.fulfill(json={"items": [{**item, "phase": state["phase"]} for item in answer["items"]]})

    if "models" in state:
        await bench.page.route("**/api/models", models)
    if "health" in state:
        await bench.page.route("**/health", health)
    if "phase" in state:
        await bench.page.route("**/api/agents", agents)


async def test_each_hindrance_has_its_words_and_leaves_the_draft(gateway: Gateway) -> None:
    for size in (DESKTOP, PHONE):
        async with Workbench.open(gateway, size) as bench:
            await bench.sign_in()
            await bench.box.fill("a draft")
            for name, state in STATES.items():
                await _pretend(bench, state)
                await bench.page.reload()
                await expect(bench.page.locator("#notes")).to_contain_text(SAYS[name])
                await expect(bench.box).to_have_value("a draft")
                await bench.keep_picture(f"{size[0]}-{name}")
                assert await bench.check_access() == []
                await bench.page.unroute_all(behavior="wait")
            assert bench.faults == []


async def test_the_first_words_are_read_from_their_top(gateway: Gateway) -> None:
    async with Workbench.open(gateway, (320, 568)) as bench:
        await bench.sign_in()
        await expect(bench.page.get_by_role("heading", name="What shall we work on?")).to_be_in_viewport(ratio=1)
        await bench.page.get_by_role("button", name="Explain in five sentences").click()
        await expect(bench.box).to_have_value("Explain in five sentences how a hash table works.")
        assert await bench.turns.count() == 0


async def test_a_server_that_does_not_answer_is_said_to_be_away(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await gateway.stop()
        await bench.page.evaluate("dispatchEvent(new Event('focus'))")
        await expect(bench.page.locator("#notes")).to_contain_text("The server cannot be reached")
        await expect(bench.page.locator(".server")).to_contain_text("Not reachable")
        await bench.keep_picture("unreachable")


async def test_a_conversation_that_cannot_be_read_can_be_tried_again(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "hello")
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.page.route(f"**/sessions/{conversation}", lambda route: route.fulfill(status=500, body="<html>"))
        await bench.show_conversation("hello")
        await expect(bench.page.get_by_role("alert").get_by_text("could not be read")).to_be_visible()
        await bench.keep_picture("page-failed")
        await bench.page.unroute_all(behavior="wait")
        await bench.page.get_by_role("button", name="Try again").click()
        await expect(bench.turns).to_have_count(1)


async def test_a_failed_turn_says_why_and_retry_sends_nothing(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(status(404, json.dumps({"error": "model not found"})))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("fail")
        failure = bench.page.locator(".turn-failure")
        await expect(failure).to_contain_text("does not have this model")
        await expect(failure).to_contain_text("model_not_found")
        await expect(failure).to_contain_text("after 0:00")
        await bench.keep_picture("turn-failed")
        assert await bench.check_access() == []
        asked = len(fake.chats)
        await failure.get_by_role("button", name="Retry").click()
        await expect(bench.box).to_have_value("fail")
        await expect(bench.turns).to_have_count(1)
        assert len(fake.chats) == asked
        assert bench.faults == []


async def test_a_denied_change_changes_nothing_and_the_model_learns_why(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("left as it is"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("change it")
        await bench.page.get_by_role("button", name="Deny…").click()
        await bench.page.get_by_label("Reason for the model").fill("not this file")
        await bench.keep_picture("denying")
        assert await bench.check_access() == []
        await bench.page.get_by_role("button", name="Deny", exact=True).click()
        await expect(await bench.answered(1)).to_contain_text("left as it is")
        await expect(bench.page.locator(".tool-line.bad")).to_contain_text("denied by you")
        assert "not this file" in json.dumps(fake.chats[-1]["messages"])
        assert (gateway.workspace / "n.md").read_text() == "teh\n"


async def test_approve_waits_until_the_whole_change_is_shown_and_is_never_focused_by_itself(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("done"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.page.route("**/permissions/*", lambda route: route.fulfill(status=503, body=""))
        await bench.send("change it")
        await expect(bench.page.get_by_text("could not be read, so it cannot be accepted")).to_be_visible()
        await expect(bench.approve).to_be_disabled()
        await expect(bench.box).to_be_focused()
        await expect(bench.page.locator("#alerts")).to_have_text("The Run waits for your decision.")
        await bench.page.unroute_all(behavior="wait")
        await bench.page.get_by_role("button", name="Try again").click()
        await expect(bench.approve).to_be_enabled()


async def test_a_wrong_token_is_refused_in_words(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.page.goto(f"http://127.0.0.1:{gateway.port}/")
        await bench.page.locator("input[type=password]").fill("wrong")
        await bench.page.keyboard.press("Enter")
        await expect(bench.page.get_by_role("alert")).to_have_text("This is not the access token. Check it and try again.")
        assert await bench.check_access() == []


async def test_the_language_can_be_changed_and_stays(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.fill("kept")
        await bench.page.get_by_role("button", name="Settings").click()
        await bench.page.get_by_role("menuitemcheckbox", name="简体中文").click()
        await expect(bench.page.get_by_role("button", name="新会话")).to_be_visible()
        assert await bench.page.locator("html").get_attribute("lang") == "zh-CN"
        await expect(bench.box).to_have_value("kept")
        await bench.page.get_by_role("button", name="设置").click()
        await bench.page.get_by_role("menuitemcheckbox", name="深色").click()
        await bench.page.reload()
        assert await bench.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 20, 18)"


async def test_switching_the_agent_switches_everything_of_it(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    await gateway.run(conversation, "of the first")
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await bench.sign_in()
        await page.locator(".agent-button").click()
        await page.get_by_role("button", name="New Agent…").click()
        await page.locator("dialog input").fill("Second")
        await page.keyboard.press("Enter")
        await expect(page.locator(".agent-button")).to_contain_text("Second")
        await expect(page.get_by_text("No Conversations yet.")).to_be_visible()
        await expect(page.locator(".row-open", has_text="of the first")).to_have_count(0)
        await page.get_by_role("button", name="Actions for Agent Second").click()
        await bench.keep_picture("agent-menu")
        assert await bench.check_access() == []
        await page.get_by_role("menuitem", name="Rebuild runtime environment…").click()
        await page.get_by_role("button", name="Rebuild", exact=True).click()
        await expect(page.locator(".agent-phase", has_text="rebuilding")).to_have_count(1)
        await expect(page.locator(".agent-phase", has_text="rebuilding")).to_have_count(0)
        await page.get_by_role("button", name="Actions for Agent Second").click()
        await page.get_by_role("menuitem", name="Delete…").click()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await expect(page.locator(".row-open", has_text="of the first")).to_be_visible()
        await expect(page.locator(".agent-rows .row")).to_have_count(1)
        await page.get_by_role("button", name="Actions for Agent Assistant").click()
        await expect(page.get_by_role("menuitem")).to_have_text(["Rename…", "Documents, Skills and Tasks…"])


async def test_the_whole_way_by_keyboard(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("done"))
    async with Workbench.open(gateway) as bench:
        page, keys = bench.page, bench.page.keyboard
        await bench.sign_in()
        await keys.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the message field")).to_be_focused()
        await keys.press("Enter")
        await expect(bench.box).to_be_focused()
        await keys.type("change n.md")
        await keys.press("Enter")
        await expect(bench.approve).to_be_enabled()
        await _tab_to(bench, "Approve", backwards=True)
        await keys.press("Enter")
        await bench.answered(1)
        await _tab_to(bench, "Details")
        await keys.press("Enter")
        await expect(page.locator("#details")).to_be_visible()
        await _tab_to(bench, "Close run details")
        await keys.press("Enter")
        await expect(bench.box).to_be_focused()
        for item, answer in (("r", "renamed"), ("d", None)):
            await _tab_to(bench, "Conversation actions")
            await keys.press("Enter")
            for _ in range(0 if item == "r" else 2):
                await keys.press("ArrowDown")
            await keys.press("Enter")
            if answer:
                await keys.type(answer)
                await keys.press("Enter")
                await expect(bench.topbar.get_by_role("heading", name=answer)).to_be_visible()
            else:
                await keys.press("Tab")
                await keys.press("Enter")
        await expect(page.locator(".welcome")).to_be_visible()
        await _tab_to(bench, "New conversation")
        await keys.press("Enter")
        await expect(bench.box).to_be_focused()
        assert bench.faults == []


async def _tab_to(bench: Workbench, name: str, *, backwards: bool = False) -> None:
    """Presses Tab until the button of that name has the focus; a reader could not find it otherwise."""
    for _ in range(60):
        await bench.page.keyboard.press("Shift+Tab" if backwards else "Tab")
        found = await bench.page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")
        if found == name:
            return
    raise AssertionError(f"no way to {name} with Tab")
