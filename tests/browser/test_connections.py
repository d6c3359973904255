"""Networks and tabs that hold still, hold back or break off: the page shows what is true, once, and invents nothing."""

from playwright.async_api import expect

from tests.support.browser import Workbench
from tests.support.fake_ollama import FakeOllama, Gate, begun, gated, text
from tests.support.gateway import Gateway
from tests.support.proxies import Cuts, Holds, proxied

WORDS = "".join(f"word {number:03d} " for number in range(200))


async def test_a_connection_cut_four_times_costs_and_doubles_no_word(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text(WORDS, size=9, gap=0.02))
    cuts = Cuts(7, 40, 80)
    async with proxied(gateway, cuts) as port, Workbench.open(gateway, port=port) as bench:
        await bench.sign_in()
        await bench.send("count")
        answer = await bench.answered(1)
        await expect(answer).to_have_text(f"Answer{WORDS.strip()}")
        assert cuts.made == 4
        await expect(bench.page.get_by_text("word 000")).to_have_count(1)
        await bench.page.reload()
        await expect(await bench.answered(1)).to_have_text(f"Answer{WORDS.strip()}")
        assert [fault for fault in bench.faults if "ERR_" not in fault] == []


async def test_a_proxy_that_holds_answers_back_does_not_hold_back_events(gateway: Gateway, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(gated(gate, text("the end"), before=begun("the beginning ")))
    async with proxied(gateway, Holds()) as port, Workbench.open(gateway, port=port) as bench:
        await bench.sign_in()
        await bench.send("tell")
        await expect(bench.page.locator(".live-text")).to_have_text("the beginning ")
        gate.open()
        await expect(await bench.answered(1)).to_have_text("Answerthe beginning the end")
        assert bench.faults == []


async def test_a_frozen_tab_shows_the_true_state_when_it_thaws(gateway: Gateway, fake: FakeOllama) -> None:
    gate, more = Gate(), Gate()
    fake.script(gated(gate, gated(more, text("the end"), before=begun("the middle ")), before=begun("the beginning ")))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("tell")
        await expect(bench.page.locator(".live-text")).to_have_text("the beginning ")
        browser = await bench.context.new_cdp_session(bench.page)
        await browser.send("Page.setWebLifecycleState", {"state": "frozen"})
        gate.open()
        more.open()
        await bench.completed_unseen()
        await browser.send("Page.setWebLifecycleState", {"state": "active"})
        await expect(await bench.answered(1)).to_have_text("Answerthe beginning the middle the end")
        await expect(bench.page.get_by_text("the beginning")).to_have_count(1)
        await expect(bench.page.locator(".turn-failure, .live-text")).to_have_count(0)
        assert bench.faults == []
