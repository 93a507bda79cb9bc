"""`lakeward up` and the tierer that it keeps."""

from __future__ import annotations

import asyncio
from itertools import accumulate
from pathlib import Path

import pytest

from tiering.cli.processes.coordinator import CoordinatorSettings
from tiering.cli.processes.monitoring import MonitoringSettings
from tiering.cli.processes.up import (
    LASTED_SECONDS,
    RESTART_SECONDS,
    UpSettings,
    deaths_in_a_row,
    keep_log_small,
    restart_pause,
    serve_up,
)
from tiering.errors import SetupError

AT_ONCE, LONG = 1.0, LASTED_SECONDS + 1.0


def test_a_tierer_that_ran_for_long_is_soon_started_again_and_one_that_dies_at_once_later_and_later() -> None:
    lives = [LONG, AT_ONCE, AT_ONCE, LONG, *7 * [AT_ONCE]]
    deaths = list(accumulate(lives, deaths_in_a_row, initial=0))[1:]
    assert list(map(restart_pause, deaths)) == [1, 2, 5, 1, 2, 5, 10, 30, 30, 30, 30]
    assert restart_pause(deaths_in_a_row(0, AT_ONCE)) == RESTART_SECONDS[0]


@pytest.mark.parametrize(("port", "metrics_port"), [(7707, 9464), (9464, None)])
def test_one_port_for_both_processes_is_refused(port: int, metrics_port: int | None, tmp_path: Path) -> None:
    coordinator = CoordinatorSettings(tmp_path, "127.0.0.1", port, 1_000, 0, monitoring=MonitoringSettings(metrics_port))
    with pytest.raises(SetupError, match="9464 is given twice"):
        asyncio.run(serve_up(UpSettings(coordinator, "local", 1, (), "info", tierer_metrics_port=9464)))
    assert not list(tmp_path.iterdir())


def test_the_log_is_rotated_again_and_again_and_a_failure_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[object] = [True, OSError(28, "No space left on device"), True]
    rotations: list[object] = []

    def rotation(file: Path, most_bytes: int) -> bool:
        rotations.append((file, most_bytes))
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return bool(outcome)

    monkeypatch.setattr("tiering.cli.processes.up.rotate", rotation)

    async def keep() -> None:
        keeper = asyncio.create_task(keep_log_small(tmp_path / "tierer.log", 7, every_seconds=0.001))
        while outcomes:
            await asyncio.sleep(0.001)
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)

    asyncio.run(keep())
    assert rotations[:3] == 3 * [(tmp_path / "tierer.log", 7)]
