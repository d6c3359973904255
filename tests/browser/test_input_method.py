"""Writing Chinese: the Enter that picks a word belongs to the input method."""

from playwright.async_api import CDPSession, expect

from tests.support.browser import Workbench
from tests.support.fake_ollama import FakeOllama, text
from tests.support.gateway import Gateway


class _InputMethod:
    """An input method, as the browser sees one."""

    def __init__(self, bench: Workbench, protocol: CDPSession) -> None:
        self.bench, self.protocol = bench, protocol

    @classmethod
    async def at(cls, bench: Workbench) -> "_InputMethod":
        return cls(bench, await bench.context.new_cdp_session(bench.page))

    async def compose(self, letters: str) -> None:
        await self.protocol.send("Input.imeSetComposition", {"text": letters, "selectionStart": len(letters), "selectionEnd": len(letters)})

    async def key(self, name: str, modifiers: int = 0) -> None:
        """A key that the input method keeps to itself."""
        await self.protocol.send(
            "Input.dispatchKeyEvent", {"type": "rawKeyDown", "key": name, "code": name, "windowsVirtualKeyCode": 229, "modifiers": modifiers}
        )
        await self.protocol.send("Input.dispatchKeyEvent", {"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": 229})

    async def commit(self, word: str) -> None:
        await self.protocol.send("Input.insertText", {"text": word})


async def test_the_enter_that_picks_a_word_sends_nothing_and_the_next_one_sends(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("好"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.focus()
        method = await _InputMethod.at(bench)
        await method.compose("nihao")
        await method.key("Enter")
        assert await bench.turns.count() == 0
        await method.commit("你好")
        await expect(bench.box).to_have_value("你好")
        assert await bench.turns.count() == 0
        await bench.page.keyboard.press("Enter")
        await bench.answered(1)
        await expect(bench.page.locator(".user-text")).to_have_text("你好")
        assert [chat["messages"][-1]["content"] for chat in fake.chats] == ["你好"]
        assert bench.faults == []


async def test_an_enter_during_composition_is_recognised_by_either_sign(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.fill("half a sentence")
        for sign in ("{isComposing: true}", "{keyCode: 229}"):
            await bench.page.evaluate(
                f"document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true, cancelable: true, ...{sign}}}))"
            )
        await expect(bench.box).to_have_value("half a sentence")
        assert await bench.turns.count() == 0


async def test_composing_in_the_command_panel_chooses_and_runs_nothing(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.focus()
        await bench.page.keyboard.type("/")
        await expect(bench.page.get_by_role("listbox", name="Suggestions")).to_be_visible()
        method = await _InputMethod.at(bench)
        await method.compose("sta")
        await method.key("Enter")
        await method.key("Escape")
        await expect(bench.page.locator(".command-result")).to_have_count(0)
        assert await bench.box.input_value() == "/sta"


async def test_shift_enter_breaks_the_line(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.focus()
        await bench.page.keyboard.type("one")
        await bench.page.keyboard.press("Shift+Enter")
        await bench.page.keyboard.type("two")
        await expect(bench.box).to_have_value("one\ntwo")
        assert await bench.turns.count() == 0


async def test_shift_enter_belongs_to_the_input_method_while_it_composes(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.box.focus()
        method = await _InputMethod.at(bench)
        await method.compose("nihao")
        await method.key("Enter", modifiers=8)
        assert await bench.turns.count() == 0
        await method.commit("你好")
        await bench.page.keyboard.press("Shift+Enter")
        await method.compose("ma")
        await method.key("Enter")
        await method.commit("吗")
        await expect(bench.box).to_have_value("你好\n吗")
        assert await bench.turns.count() == 0
