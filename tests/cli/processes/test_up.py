"""`lakeward up` and the tierer that it keeps."""

from __future__ import annotations

import asyncio
from itertools import accumulate
from pathlib import Path

import pytest

from tiering.cli.processes import up
from tiering.cli.processes.up import (
    LASTED_SECONDS,
    RESTART_SECONDS,
    UpSettings,
    deaths_in_a_row,
    keep_log_small,
    restart_pause,
    serve_up,
)
from tiering.cli.terminal.options import MetricsAddress, TiererOptions
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.errors import SetupError

AT_ONCE, LONG = 1.0, LASTED_SECONDS + 1.0


def test_a_tierer_that_ran_for_long_is_soon_started_again_and_one_that_dies_at_once_later_and_later() -> None:
    lives = [LONG, AT_ONCE, AT_ONCE, LONG, *7 * [AT_ONCE]]
    deaths = list(accumulate(lives, deaths_in_a_row, initial=0))[1:]
    assert list(map(restart_pause, deaths)) == [1, 2, 5, 1, 2, 5, 10, 30, 30, 30, 30]
    assert restart_pause(deaths_in_a_row(0, AT_ONCE)) == RESTART_SECONDS[0]


@pytest.mark.parametrize(("port", "metrics_port"), [(7707, 9464), (9464, None)])
def test_one_port_for_both_processes_is_refused(port: int, metrics_port: int | None, tmp_path: Path) -> None:
    coordinator = ServiceOptions(tmp_path, port, metrics=MetricsAddress(metrics_port))
    with pytest.raises(SetupError, match="9464 is used twice"):
        asyncio.run(serve_up(UpSettings(coordinator, TiererOptions("local"), tierer_metrics_port=9464)))
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


class CoordinatorWithoutTierers:
    """Serves until it is stopped; `connects` is the number of the tierer's start with which one is connected."""

    uri = "127.0.0.1:7707"

    def __init__(self, starts: Path, connects: int) -> None:
        self._starts = starts
        self._connects = connects

    def tierer_connected(self) -> bool:
        return self._starts.exists() and len(self._starts.read_text().splitlines()) >= self._connects

    async def wait(self, stopping: asyncio.Event) -> None:
        await stopping.wait()


HANGS, DIES = 'echo start >> "$0"; exec sleep 600', 'echo start >> "$0"; exit 1'


@pytest.mark.parametrize("tierer", [HANGS, DIES])
def test_a_tierer_that_does_not_become_ready_is_started_again_beside_a_coordinator_that_serves(
    tierer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = tmp_path / "starts"
    monkeypatch.setattr(up, "READY_SECONDS", 0.3)
    monkeypatch.setattr(up, "RESTART_SECONDS", (0,))
    monkeypatch.setattr(up, "module_command", lambda *_: ["sh", "-c", tierer, str(starts)])
    (tmp_path / "logs").mkdir()
    settings = UpSettings(ServiceOptions(tmp_path), TiererOptions("local"))
    announced: list[tuple[str, int]] = []
    stopping = asyncio.Event()

    def announce(uri: str) -> None:
        announced.append((uri, len(starts.read_text().splitlines())))
        stopping.set()

    monkeypatch.setattr(up, "announce", announce)
    asyncio.run(up._serve(settings, CoordinatorWithoutTierers(starts, connects=3), stopping))  # type: ignore[arg-type]
    assert [uri for uri, _ in announced] == ["127.0.0.1:7707"]
    assert announced[0][1] >= 3


def test_what_ends_the_coordinator_ends_up_while_no_tierer_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fenced(CoordinatorWithoutTierers):
        async def wait(self, stopping: asyncio.Event) -> None:
            raise SetupError("another coordinator has taken over the store")

    monkeypatch.setattr(up, "module_command", lambda *_: ["sh", "-c", HANGS, str(tmp_path / "starts")])
    (tmp_path / "logs").mkdir()
    settings = UpSettings(ServiceOptions(tmp_path), TiererOptions("local"))
    with pytest.raises(SetupError, match="taken over"):
        asyncio.run(up._serve(settings, Fenced(tmp_path / "starts", connects=1), asyncio.Event()))  # type: ignore[arg-type]
