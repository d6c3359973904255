"""Two Runs, several places: whatever the operator switches to, each place keeps what is its own."""

from playwright.async_api import Route, expect

from tests.support.browser import Workbench, write
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, gated, text
from tests.support.gateway import Gateway


async def _two_models(route: Route) -> None:
    items = (await (await route.fetch()).json())["items"]
    await route.fulfill(json={"items": [*items, {**items[0], "model_id": "second", "label": "Second", "default": False}]})


async def _expect_own(bench: Workbench, sign: str, draft: str, model: str) -> None:
    await expect(bench.page.locator(".live-text")).to_have_text(sign * 20)
    await expect(bench.box).to_have_value(draft)
    await expect(bench.page.locator(".model-select")).to_have_value(model)
    await expect(bench.page.locator(".note.lost")).to_have_count(1 if draft.startswith("/") else 0)
    await expect(bench.page.locator(".ask")).to_have_count(0)


async def test_drafts_models_errors_and_cards_stay_with_their_conversation(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "n.md", "teh\n")
    places = {"一": ("draft of one", "second"), "2": ("/status", "test")}
    gates = {sign: Gate() for sign in places}
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await page.route("**/api/models", _two_models)
        await bench.sign_in()
        fake.script(call("file_read_text", path="n.md"), call("file_edit", path="n.md", old="teh", new="the"))
        await bench.send("asks first")
        await expect(bench.approve).to_be_enabled()
        for sign, (draft, model) in places.items():
            fake.script(gated(gates[sign], text(sign * 20), before=begun(sign * 20)))
            await bench.start_new()
            await bench.send(f"only {sign}")
            await page.locator(".model-select").select_option(model)
            await bench.box.fill(draft)
        await page.route("**/commands", lambda route: route.fulfill(status=500, body="") if route.request.method == "POST" else route.continue_())
        await bench.box.press("Enter")
        await expect(page.locator(".note.lost")).to_be_visible()
        for _ in range(3):
            for sign, own in places.items():
                await bench.show_conversation(f"only {sign}")
                await _expect_own(bench, sign, *own)
        await bench.show_conversation("asks first")
        await expect(page.locator(".ask")).to_have_count(1)
        await expect(bench.box).to_have_value("")
        await page.go_back()
        await _expect_own(bench, "2", *places["2"])
        await page.go_back()
        await _expect_own(bench, "一", *places["一"])
        await page.go_forward()
        await _expect_own(bench, "2", *places["2"])
        for gate in gates.values():
            gate.open()
        for sign in places:
            await bench.show_conversation(f"only {sign}")
            await expect((await bench.answered(1)).locator("p")).to_have_text(sign * 40)


async def test_a_reload_and_another_agent_in_the_middle_lose_nothing(gateway: Gateway, fake: FakeOllama) -> None:
    other = (await gateway.ok("POST", "/api/agents", {"name": "Librarian"}))["name"]
    gates = {"一": Gate(), "2": Gate()}
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await bench.sign_in()
        for sign, gate in gates.items():
            fake.script(gated(gate, text(sign * 20), before=begun(sign * 20)))
            await bench.start_new()
            await bench.send(f"only {sign}")
            await expect(page.locator(".live-text")).to_have_text(sign * 20)
            await bench.box.fill(f"draft {sign}")
        await page.reload()
        await expect(page.locator(".live-text")).to_have_text("2" * 20)
        await expect(bench.box).to_have_value("draft 2")
        await page.locator(".agent-button").click()
        await page.locator(".agent-rows .row-open", has_text=other).click()
        await expect(page.locator(".agent-name")).to_have_text(other)
        await expect(page.locator(".live-text")).to_have_count(0)
        await expect(bench.box).to_have_value("")
        await page.go_back()
        await expect(page.locator(".live-text")).to_have_text("2" * 20)
        await expect(bench.box).to_have_value("draft 2")
        await bench.show_conversation("only 一")
        await expect(page.locator(".live-text")).to_have_text("一" * 20)
        await bench.button("details", bench.topbar).click()
        await expect(page.locator(".details-subject")).to_have_text("only 一")
        await bench.show_conversation("only 2")
        await expect(page.locator(".details-subject")).to_have_text("only 2")
        await expect(page.locator(".live-text")).to_have_text("2" * 20)
        for gate in gates.values():
            gate.open()
        for sign in gates:
            await bench.show_conversation(f"only {sign}")
            await expect((await bench.answered(1)).locator("p")).to_have_text(sign * 40)
        assert bench.faults == []
