import asyncio

import pytest

from agent_builder.runs.race import guarded


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


async def answer() -> int:
    await asyncio.sleep(0)
    return 7


async def fail() -> None:
    raise LookupError


async def test_the_result_of_the_work_is_given_and_watchers_are_ended() -> None:
    ended: list[str] = []
    assert await guarded(answer(), forever(ended)) == 7
    assert ended == ["ended"]


async def test_a_watcher_that_raises_ends_the_work_with_its_error() -> None:
    ended: list[str] = []
    with pytest.raises(LookupError):
        await guarded(forever(ended), fail())
    assert ended == ["ended"]


async def test_a_watcher_that_returns_does_not_end_the_work() -> None:
    async def nothing() -> None:
        return

    assert await guarded(answer(), nothing()) == 7


async def test_cancelling_ends_everything_before_it_is_over() -> None:
    ended: list[str] = []
    task = asyncio.ensure_future(guarded(forever(ended), forever(ended)))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended", "ended"]


async def test_a_result_that_comes_together_with_a_watchers_error_counts() -> None:
    async def work() -> str:
        return "done"

    async def fails() -> None:
        raise ValueError

    assert await guarded(work(), fails()) == "done"
