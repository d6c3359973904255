"""The page tells the truth about what runs, whatever happens to the page, the connection or the server."""

import re
import time

from playwright.async_api import Route, expect

from tests.support.browser import Workbench, write
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text, thinking
from tests.support.gateway import Gateway


async def test_a_reload_in_the_middle_takes_the_run_up_again(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("the end"), before=begun("the beginning ")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("tell")
        await expect(bench.page.locator(".live-text")).to_contain_text("the beginning")
        await bench.page.reload()
        await expect(bench.page.locator(".live-text")).to_contain_text("the beginning")
        gate.open()
        await expect(await bench.answered(1)).to_contain_text("the beginning the end")
        await expect(bench.page.get_by_text("the beginning")).to_have_count(1)
        assert bench.faults == []


async def test_switching_conversations_mixes_nothing_up(gateway: Gateway, fake: FakeOllama) -> None:
    gates = {"一": Gate(), "2": Gate()}
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        for sign, gate in gates.items():
            fake.script(gated(gate, text(sign * 20), before=begun(sign * 20)))
            await bench.start_new()
            await bench.send(f"only {sign}")
            await expect(bench.page.locator(".live-text")).to_have_text(sign * 20)
        await expect(bench.page.locator(".row .dot:visible")).to_have_count(2)
        for _ in range(6):
            for sign in gates:
                await bench.show_conversation(f"only {sign}")
                await expect(bench.page.locator(".live-text")).to_have_text(sign * 20)
        for gate in gates.values():
            gate.open()
        for sign in gates:
            await bench.show_conversation(f"only {sign}")
            await expect(await bench.answered(1)).to_contain_text(sign * 40)
        await expect(bench.page.locator(".row .dot:visible")).to_have_count(0)
        assert bench.faults == []


async def test_two_tabs_show_the_same_run_and_one_decision_serves_both(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "teh\n")
    fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"), text("done"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("correct it")
        await expect(bench.approve).to_be_enabled()
        other = await bench.another_tab()
        await expect(other.approve).to_be_enabled()
        assert "1 to decide" in await other.page.title()
        await other.approve.click()
        await expect(await other.answered(1)).to_contain_text("done")
        await bench.page.bring_to_front()
        await expect(await bench.answered(1)).to_contain_text("done")
        await expect(bench.approve).to_have_count(0)
        assert bench.faults + other.faults == []


async def test_four_runs_and_a_second_tab_leave_every_click_its_answer(gateway: Gateway, fake: FakeOllama) -> None:
    """A browser gives one host six connections; each tab holds at most one of them for events."""
    gate = Gate()
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        streams: list[str] = []
        write(gateway, "n.md", "teh\n")
        for number in range(4):
            change = [call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the")] if number == 0 else []
            fake.script(*change, gated(gate, text("end"), before=begun("begin")))
            await bench.start_new()
            await bench.send(f"run {number}")
            if change:
                await expect(bench.approve).to_be_enabled()
        await expect(bench.page.locator(".row .dot:visible")).to_have_count(4)
        others = [await bench.another_tab()]
        for _ in range(6):
            idle = await bench.another_tab()
            await _visibility(idle, "hidden")
            others.append(idle)
        bench.page.on("request", lambda request: streams.append(request.url) if "/events" in request.url else None)
        await bench.page.bring_to_front()
        await bench.button("actions", bench.topbar).click()
        await bench.page.get_by_role("menuitem", name="Rename…").click()
        await bench.page.locator("dialog input").fill("renamed")
        await bench.page.keyboard.press("Enter")
        await expect(bench.topbar.get_by_role("heading", name="renamed")).to_be_visible()
        await bench.page.locator("#stage").get_by_role("button", name="Stop").click()
        await expect(bench.page.locator(".turn-failure")).to_contain_text("You stopped this Run")
        other = others[0]
        await other.page.bring_to_front()
        await other.show_conversation("run 0")
        await other.approve.click()
        await expect(other.page.locator(".tool-mark svg")).to_have_count(2)
        await expect(other.page.locator(".ask")).to_have_count(0)
        assert (gateway.workspace / "n.md").read_text() == "the\n"
        await other.show_conversation("run 1")
        await other.page.locator("#stage").get_by_role("button", name="Stop").click()
        await expect(other.page.locator(".turn-failure")).to_contain_text("You stopped this Run")
        assert await other.page.evaluate("fetch('/health').then(answer => answer.status)") == 200
        await bench.page.bring_to_front()
        gate.open()
        await expect(bench.page.locator(".row .dot:visible")).to_have_count(0)
        assert all(url.startswith(f"http://127.0.0.1:{gateway.port}/api/events?") for url in streams)
        assert [fault for tab in (bench, *others) for fault in tab.faults] == []


async def test_stopping_says_stopped_only_when_nothing_goes_on(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(gated(Gate(), text("never"), before=begun("half an answer")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await expect(bench.page.locator(".live-text")).to_contain_text("half an answer")
        await bench.page.locator("#stage").get_by_role("button", name="Stop").click()
        await expect(bench.page.locator(".turn-failure")).to_contain_text("You stopped this Run")
        await expect(bench.page.locator("#announcements")).to_have_text("Safely stopped.")
        await expect(bench.page.get_by_text("half an answer")).to_have_count(0)
        conversation = (await gateway.ok("GET", f"{gateway.agent}/sessions"))["items"][0]["conversation_id"]
        assert (await gateway.ok("GET", f"{gateway.agent}/sessions/{conversation}/preparation"))["state"] == "idle"


async def test_after_three_lost_connections_a_button_brings_the_run_back(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("whole"), before=begun("half ")))
    async with Workbench.open(gateway) as bench:
        await bench.page.clock.install()
        await bench.sign_in()
        tries: list[str] = []

        async def refuse(route: Route) -> None:
            tries.append(route.request.url)
            await route.abort()

        await bench.page.route("**/api/events*", refuse)
        await bench.send("go")
        button = bench.page.get_by_role("button", name="Reconnect")
        while not await button.is_visible():
            await bench.page.clock.run_for(1000)
        assert len(tries) == 4
        await expect(bench.page.locator("#stage")).to_contain_text("The Run may go on")
        await bench.page.unroute_all(behavior="wait")
        await button.click()
        await expect(bench.page.locator(".live-text")).to_have_text("half ")
        gate.open()
        await expect(await bench.answered(1)).to_have_text("Answerhalf whole")


async def test_a_restart_of_the_server_ends_the_turn_as_interrupted(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(gated(Gate(), text("never"), before=begun("half")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await expect(bench.page.locator(".live-text")).to_have_text("half")
        await gateway.kill()
        await gateway.start()
        await bench.page.reload()
        await bench.enter_token()
        await expect(bench.page.locator(".turn-failure")).to_contain_text("The server stopped while this Run was active")
        await expect(bench.turns).to_have_count(1)


async def test_a_hidden_tab_lets_go_and_a_seen_one_shows_how_it_ended(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("the end"), before=begun("half ")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await expect(bench.page.locator(".live-text")).to_have_text("half ")
        await _visibility(bench, "hidden")
        gate.open()
        await bench.completed_unseen()
        assert await bench.page.locator(".live-text").inner_text() == "half "
        await _visibility(bench, "visible")
        await expect(await bench.answered(1)).to_contain_text("half the end")
        assert bench.faults == []


async def test_a_run_that_ended_behind_a_lost_connection_says_all_that_it_did(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "a\n")
    gate = Gate()
    fake.script(gated(gate, call("file_read_text", path="n.md"), before=begun("half ")), text("the end"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await expect(bench.page.locator(".live-text")).to_have_text("half ")
        await bench.page.route("**/api/events*", lambda route: route.abort())
        await _visibility(bench, "hidden")
        await _visibility(bench, "visible")
        gate.open()
        await bench.completed_unseen()
        await bench.page.evaluate("dispatchEvent(new Event('focus'))")
        await bench.answered(1)
        await expect(bench.turns.last.locator(".foot")).to_contain_text("1 file read")
        await bench.button("details", bench.topbar).click()
        await expect(bench.page.locator(".event").last).to_contain_text("Run completed")


async def test_a_restart_behind_an_open_page_leads_to_the_login_and_to_the_interrupted_turn(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(gated(Gate(), text("never"), before=begun("half")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("go")
        await expect(bench.page.locator(".live-text")).to_have_text("half")
        await gateway.kill()
        await gateway.start()
        await expect(bench.page.get_by_text("Your session is over")).to_be_visible()
        await bench.enter_token()
        await expect(bench.page.locator(".turn-failure")).to_contain_text("The server stopped while this Run was active")
        await expect(bench.turns).to_have_count(1)


async def test_the_time_of_a_run_is_told_right_by_a_browser_whose_clock_is_wrong(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(gated(Gate(), text("never"), before=begun("half")))
    for hours in (-1, 1):
        async with Workbench.open(gateway) as bench:
            await bench.page.clock.install(time=time.time() + hours * 3600)
            await bench.sign_in()
            if hours < 0:
                await bench.send("go")
            else:
                await bench.show_conversation("go")
            clock = bench.page.locator(".stage-clock")
            await expect(clock).to_have_text(re.compile(r"^[0-4]:\d\d$"))
            await expect(clock).not_to_have_text("0:00")


async def test_thinking_is_shown_while_it_lasts_and_is_no_part_of_the_answer(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(thinking("let me see", "the answer"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("think")
        await expect(await bench.answered(1)).to_contain_text("the answer")
        await expect(bench.page.get_by_text("let me see")).to_have_count(0)


async def _visibility(bench: Workbench, state: str) -> None:
    await bench.page.evaluate(
        "state => { Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        state,
    )

