#!/usr/bin/env python3
"""Crash and restart a Gateway over and over under random work, and compare it with what its clients were told.

    ./.venv/bin/python scripts/soak.py --rounds 200 --seed 1

Everything is local: a checkout of its own in a temporary directory, a scripted model server, loopback only. It ends by itself after
its rounds, or at the first difference with exit code 1; the seed that is printed makes the same choices again.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.support.soak import Soak  # noqa: E402 - found through the path above

ROUND_S = 240  # seconds: in which a round that hangs is given up


async def soak(rounds: int, seed: int) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        async with Soak(Path(folder), seed) as running:
            for number in range(1, rounds + 1):
                async with asyncio.timeout(ROUND_S):
                    await running.round()
                if number % 10 == 0 or number == rounds:
                    print(f"{number} rounds, {time.monotonic() - began:.0f} s: {dict(sorted(running.told.items()))}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="crashes and restarts (200)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all random choices (the time)")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    try:
        asyncio.run(soak(chosen.rounds, chosen.seed))
    except AssertionError as difference:
        print(f"after a crash something is not as it was told: {difference}", file=sys.stderr)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
