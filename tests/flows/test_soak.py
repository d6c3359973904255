"""The short form of scripts/soak.py."""

from pathlib import Path

from tests.support.soak import Soak


async def test_what_clients_were_told_holds_through_random_crashes(tmp_path: Path) -> None:
    async with Soak(tmp_path, seed=4) as soak:
        for _ in range(6):
            await soak.round()
    assert soak.told["rounds"] == 6
    assert soak.told["turns accepted"] > 0
