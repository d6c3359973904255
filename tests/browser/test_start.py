"""A page that cannot begin says so, and begins when it can."""

import asyncio

from playwright.async_api import Route, expect

from tests.support.browser import Workbench
from tests.support.gateway import Gateway

SESSION = "**/api/session"


async def test_a_server_that_does_not_answer_at_the_start_is_told_and_tried_again(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        page = bench.page
        await bench.sign_in()
        await bench.box.fill("a draft")
        await page.route(SESSION, lambda route: route.abort())
        again = page.get_by_role("button", name="Try again")
        for path in ("/", "/login"):
            await page.goto(f"http://{bench.place}{path}")
            await expect(page.get_by_role("alert").get_by_text("The server does not answer")).to_be_visible()
            await expect(again).to_be_focused()
            assert await bench.check_access() == []
            await again.click()
            await expect(again).to_be_focused()
        await page.unroute_all(behavior="wait")
        await again.click()
        await expect(bench.box).to_have_value("a draft")


async def test_a_server_that_takes_its_time_is_waited_for_in_words(gateway: Gateway) -> None:
    async with Workbench.open(gateway) as bench:
        page, answer = bench.page, asyncio.Event()
        await bench.sign_in()

        async def slow(route: Route) -> None:
            await answer.wait()
            await route.continue_()

        await page.route(SESSION, slow)
        for path in ("/login", "/"):
            answer.clear()
            await page.goto(f"http://{bench.place}{path}")
            await expect(page.get_by_text("Waiting for the server")).to_be_visible()
            answer.set()
            await expect(bench.box).to_be_enabled()
            await expect(page.get_by_text("Waiting for the server")).to_have_count(0)
        assert bench.faults == []
