"""Figures of a Turn on its way: first delta, lag, burst, end, cancel, tools."""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from statistics import median

from bench_client import Json, RawClient, Seen
from bench_gateway import Gateway
from bench_report import MS, Row, p95

FRAMES_AT_ONCE = 30  # the Gateway passes the first 32 pieces on as they come; later ones are merged by design
LONG_FRAMES = 100
BURST_FRAMES = 400
TOOLS = 4
_numbers = itertools.count(1)


def spec(frames: int = 1, **more: object) -> Json:
    return {"id": f"r{next(_numbers)}", "frames": frames, **more}


async def rows(gateway: Gateway, repeats: int) -> list[Row]:
    """`repeats`: Turns behind each figure."""
    raw = RawClient(gateway.provider_port)
    made = [*await _first_delta(gateway, raw, repeats), *await _lag(gateway, raw, max(2, repeats // 4))]
    made += await _burst_and_end(gateway, raw, max(2, repeats // 2))
    made += [await _cancel(gateway, raw, max(2, repeats // 2)), await _tools(gateway, max(2, repeats // 3))]
    return made


async def _first_delta(gateway: Gateway, raw: RawClient, repeats: int) -> list[Row]:
    direct, warm = [], []
    for _ in range(repeats):  # in turns, so that a noisy moment meets both
        direct.append((await raw.run(spec())).first_s)
        warm.append(await gateway.run(spec()))
    other = await gateway.new_agent("Benchmark: another Agent")
    cold = [await _with_own_worker(gateway, gateway.agent if number % 2 else other) for number in range(repeats)]
    floor = median(direct)
    parts = {
        "from the POST to the 202": [seen.accepted - seen.sent for seen in warm],
        "from the POST to the provider's request": [seen.exchanges[0]["received"] - seen.sent for seen in warm],
        "from the first frame's write to the delta": [seen.texts[0][0] - seen.exchanges[0]["writes"][0] for seen in warm],
    }
    return [
        Row("added time to the first visible delta, warm spare Worker", "ms", [(s.first_s - floor) * MS for s in warm], 15, _ms(direct)),
        Row("the same, Worker spawned for the Run", "ms", [(s.first_s - floor) * MS for s in cold], 45, _ms(direct)),
        Row("POST runs → 202", "ms", _ms(parts["from the POST to the 202"]), 8),
        *(Row(f"of a warm Turn: {name}", "ms", _ms(values)) for name, values in list(parts.items())[1:]),
    ]


async def _with_own_worker(gateway: Gateway, agent: str) -> Seen:
    """A Turn of another Agent than the last one, to whom the spare belongs: its Worker is spawned."""
    before = set(gateway.workers)
    seen = await gateway.run(spec(), agent=agent)
    await gateway.parked_anew(before)
    return seen


async def _lag(gateway: Gateway, raw: RawClient, repeats: int) -> list[Row]:
    made = []
    for streams, target in ((1, 1.5), (4, 3)):
        direct, through = [], []
        for _ in range(repeats):
            direct.append(await asyncio.gather(*(raw.run(spec(FRAMES_AT_ONCE, gap=0.02)) for _ in range(streams))))
            through.append(await _together(gateway, streams))
        name = f"lag per frame, p95, {streams} stream{'s' * (streams > 1)}"
        made.append(Row(name, "ms", _ms(map(_lag_p95, through)), target, _ms(map(_lag_p95, direct))))
    long = [await gateway.run(spec(LONG_FRAMES, gap=0.01)) for _ in range(2)]
    made.append(Row("lag of a frame after the 32nd, p95, 100 frames/s (merged for 50 ms or 512 bytes)", "ms", [
        p95(seen.lags()[FRAMES_AT_ONCE + 2 :]) * MS for seen in long
    ]))
    return made


async def _together(gateway: Gateway, streams: int) -> list[Seen]:
    seen = await asyncio.gather(*(gateway.run(spec(FRAMES_AT_ONCE, gap=0.02), wait=False) for _ in range(streams)))
    await gateway.ready()
    return seen


def _lag_p95(seen: Sequence[Seen]) -> float:
    return p95([lag for one in seen for lag in one.lags()])


async def _burst_and_end(gateway: Gateway, raw: RawClient, repeats: int) -> list[Row]:
    direct, through, short, short_direct = [], [], [], []
    for _ in range(repeats):
        direct.append(await raw.run(spec(BURST_FRAMES)))
        through.append(await gateway.run(spec(BURST_FRAMES)))
        short_direct.append(await raw.run(spec(10, gap=0.005)))
        short.append(await gateway.run(spec(10, gap=0.005)))
    floor = median(seen.whole_s for seen in direct)
    return [
        Row(f"added completion of a {BURST_FRAMES}-frame burst", "ms", [(s.whole_s - floor) * MS for s in through], 60,
            [seen.whole_s * MS for seen in direct]),
        Row("provider's last byte → terminal event at the client", "ms", _ms(map(_end_lag, short)), 8, _ms(map(_end_lag, short_direct))),
    ]


def _end_lag(seen: Seen) -> float:
    return seen.ended - float(seen.exchanges[-1]["writes"][-1])


async def _cancel(gateway: Gateway, raw: RawClient, repeats: int) -> Row:
    direct, through = [], []
    for _ in range(repeats):
        direct.append(await raw.cancel(spec(hold=True)))
        through.append(await gateway.cancel(spec(hold=True)))
    return Row("cancel → provider sees the close", "ms", _ms(through), 3, _ms(direct))


async def _tools(gateway: Gateway, repeats: int) -> Row:
    """From the last byte of an answer that calls the tool to the arrival of the next request."""
    workspace = gateway.root / "data/agents" / gateway.agent / "workspace"
    for number in range(TOOLS):
        (workspace / f"notes-{number}.md").write_text("One line of a file.\n" * 20)
        (workspace / f"notes-{number}.md").chmod(0o600)
    trips = []
    for _ in range(repeats):
        made = (await gateway.run(spec(tools=TOOLS))).exchanges
        trips += [after["received"] - before["writes"][-1] for before, after in itertools.pairwise(made)]
    return Row("one brokered tool round trip (read a file), model time excluded", "ms", _ms(trips), 20)


def _ms(values: Iterable[float]) -> list[float]:
    return [value * MS for value in values]
