"""The wall clock of one process is moved days ahead and days back while it runs and before it starts: nothing is lost or stuck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.faulty.deployment import FaultyDeployment
from support.faulty.preloaded import MovedClock

DAYS = 5 * 24 * 3_600
MOVES = (DAYS, -DAYS)


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[MovedClock]:
    return MovedClock(tmp_path / "clock")


@pytest.mark.soak
def test_a_coordinator_whose_clock_jumps_goes_on(scene: FaultyDeployment, clock: MovedClock) -> None:
    scene.start_inline_tierer("only")
    scene.kill_coordinator()
    scene.start_coordinator(port=scene.port, **clock.env)
    for seconds in MOVES:
        scene.write()
        clock.move(seconds)
        scene.write()
        scene.settle()
    scene.write()
    scene.kill_coordinator()
    clock.move(DAYS)
    scene.start_coordinator(port=scene.port, **clock.env)
    scene.write()
    scene.settle()


@pytest.mark.soak
def test_a_tierer_whose_clock_jumps_goes_on(scene: FaultyDeployment, clock: MovedClock) -> None:
    scene.start_inline_tierer("only", **clock.env)
    for seconds in MOVES:
        scene.write()
        clock.move(seconds)
        scene.write()
        scene.settle()
