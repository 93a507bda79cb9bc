"""One deployment in this process whose clock skips the time between rounds: a day of rounds takes as long as their work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.background import tick
from support.lake_kinds.kinds import LakeKind
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import SteppedRound
from tiering.coordinator.decisions.records import RoundRecord
from tiering.lake.base import Lake
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.opening import warehouse_folder
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo

FRESHNESS_S = 10
UPKEEP = "upkeep"
"""Trigger, and mode, of rounds that move no rows of the log but rewrite files."""
MOST_UPKEEP_ROUNDS = 100
"""In one step. More is a loop: a table is never healthy."""
SWEEP_S = 600.0
"""Between two sweeps of the lake's files in the background, as the coordinator's default."""
PATIENCE_S = 600
"""Simulated time after which a table is taken for one that is never tiered."""
LOOK_AGAIN_S = 0.5
"""A table that is not due yet is looked at again after so much simulated time."""

LOOP = 20_000
"""Steps of the loop that CPU times are compared with; some 2 ms."""


class SkippingClock:
    """The machine's clock, which runs on, and all time that was skipped."""

    def __init__(self) -> None:
        self._began_at, self._began = datetime.now(UTC), time.monotonic()
        self._skipped = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since its construction, with those that were skipped."""
        return time.monotonic() - self._began + self._skipped

    def now(self) -> datetime:
        return self._began_at + timedelta(seconds=self.elapsed)

    def monotonic_ms(self) -> int:
        return int(self.elapsed * 1_000)

    def advance(self, seconds: float) -> None:
        """Skips so many seconds."""
        self._skipped += seconds

    def advance_to(self, elapsed: float) -> None:
        """Skips what is left until then; nothing if that is over."""
        self.advance(max(0.0, elapsed - self.elapsed))


@dataclass(frozen=True)
class RoundFigures:
    """One round as its tierer sees it, from the request for a table to the report. `log_ms`: of that, reading the log.

    `cpu_ms`: the CPU time of this whole process meanwhile. `cpu_loops`: the same in units of a fixed loop, which was measured before and
    after the round: a machine whose speed changes with the work of its neighbours changes it little. `has_rewritten`: files of earlier
    rounds were rewritten.
    """

    is_upkeep: bool
    milliseconds: float
    cpu_ms: float
    cpu_loops: float
    log_ms: float
    moved_rows: bool
    has_rewritten: bool


class AgingWorld(FolderWorld):
    """Cluster, coordinator and lake in a folder. Rounds run inline; the lake's snapshots have the times of the skipping clock."""

    clock: SkippingClock

    def __init__(self, root: Path, kind: LakeKind) -> None:
        self.kind = kind
        self._next_sweep_s = SWEEP_S
        super().__init__(root, kind)

    def make_clock(self) -> SkippingClock:
        return SkippingClock()

    def _open_lake(self) -> Lake:
        if self.kind.format == "paimon":
            return PaimonLake(warehouse_folder(self.lake_properties), clock=self.clock)
        return IcebergLake(self.lake_properties, self.clock)

    @property
    def warehouse(self) -> Path:
        """The folder with all files of the lake."""
        return self.folder.root / "lake"

    def due_rounds(self, table: TableInfo) -> Iterator[RoundFigures]:
        """The round of the rows that wait in the log of the only table, and the upkeep rounds before and after it."""
        patience = self.clock.elapsed + PATIENCE_S
        self._background()
        figures = None
        while figures is None or not figures.moved_rows:
            figures = self._next_round()
            if figures is not None:
                yield figures
                continue
            if self.clock.elapsed > patience:
                raise SystemExit(f"no round moved the rows of {table.path} within {PATIENCE_S} s: {self.record(table).state}")
            self.clock.advance(LOOK_AGAIN_S)
            tick(self.coordinator)
        self._look_at_health()
        yield from self._upkeep_rounds()

    def _background(self) -> None:
        """Does the coordinator's work beside rounds."""
        tick(self.coordinator)
        if self.clock.elapsed >= self._next_sweep_s:
            self._next_sweep_s = self.clock.elapsed + SWEEP_S
            self.coordinator.sweeps.run()

    def _look_at_health(self) -> None:
        self.coordinator.lake_health.observe()
        self.coordinator.upkeep.refresh()

    def _upkeep_rounds(self) -> Iterator[RoundFigures]:
        for _ in range(MOST_UPKEEP_ROUNDS):
            figures = self._next_round()
            if figures is None:
                return
            yield figures
            self._look_at_health()
        raise SystemExit(f"{MOST_UPKEEP_ROUNDS} rounds in one step did not make the table healthy")

    def _next_round(self) -> RoundFigures | None:
        """Runs the next round that is due; None if none is. Raises SystemExit if it fails."""
        loop = loop_ms()
        began, began_cpu = time.perf_counter(), time.process_time()
        answer = self.beat(request_table=True)
        if not answer.HasField("tiering_table"):
            return None
        stepped: SteppedRound = self._stepped(answer)
        outcome = stepped.end()
        taken, cpu = (time.perf_counter() - began) * 1_000, (time.process_time() - began_cpu) * 1_000
        loop = (loop + loop_ms()) / 2
        if outcome.error is not None:
            raise SystemExit(f"a round failed: {outcome.error!r}") from outcome.error
        record = self.store.round(stepped.assignment.round_id)
        is_upkeep = record is not None and _is_upkeep(record)
        moved = not is_upkeep and outcome.state is RoundState.SUCCEEDED
        upkeep = outcome.stats.upkeep
        has_rewritten = upkeep is not None and upkeep.files_before > 0
        return RoundFigures(is_upkeep, taken, cpu, cpu / loop, float(outcome.stats.times.read_ms or 0), moved, has_rewritten)


def loop_ms() -> float:
    """CPU milliseconds of a fixed piece of work."""
    began, total = time.process_time(), 0
    for number in range(LOOP):
        total += number * number % 7
    return (time.process_time() - began) * 1_000


def _is_upkeep(record: RoundRecord) -> bool:
    mode = "" if record.mode is None else record.mode.value.lower()
    return UPKEEP in (record.trigger.value, mode)
