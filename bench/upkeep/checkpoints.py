"""Rounds of one table, one after the other, and its figures at some of them."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from upkeep.disk import METADATA, FileKind, WrittenBytes, sizes_by_kind
from upkeep.health import Health, health_of
from upkeep.rows import Workload
from upkeep.world import FRESHNESS_S, AgingWorld, RoundFigures

from support.services.sys_catalog import serving
from tiering.cluster.log_writer import LogWriter
from tiering.model.tables import TableInfo

MB = 1_000_000
WINDOW = 50
"""Rounds whose median is the time of a round at a checkpoint."""
CHECKPOINTS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 8_640)
SYS_TABLE = "lake_tiering_status"
SYS_READS = 5
SYS_PAUSE_S = 1.1
"""Skipped before each read: the coordinator answers from memory what it observed in the last second."""


@dataclass(frozen=True)
class Checkpoint:
    """A table after `round` rounds. `upkeep_ratio`: bytes of data files beyond those of the rows alone, by the latter.

    `upkeep_share`: of the CPU time of all rounds, see `upkeep_share`. `cpu_ratio` compares `cpu_loops` (`RoundFigures`).
    """

    round: int
    round_ms: float
    round_ratio: float
    cpu_ms: float
    cpu_loops: float
    cpu_ratio: float
    log_ms: float
    sys_ms: float
    sys_ratio: float
    health: Health
    metadata_files: int
    metadata_bytes: int
    written_by_rounds: int
    written: int
    changelog_written: int
    metadata_written: int
    upkeep_ratio: float
    upkeep_share: float
    upkeep_rounds: int

    def as_json(self) -> dict[str, object]:
        """Rounded; with the health among the other figures."""
        own = {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items() if name != "health"}
        return {**own, **asdict(self.health)}


@dataclass
class AgedTable:
    """Measurements of one kind of table. `scans`: by reader (`scans.scan_seconds`)."""

    kind: str
    buckets: int
    checkpoints: list[Checkpoint]
    late_rounds: int
    upkeep_rounds: int
    rows: int = 0
    scans: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass
class Aging:
    """Ages one table: writes rows, runs the rounds that are due, and looks at what they left."""

    world: AgingWorld
    table: TableInfo
    workload: Workload
    every_s: float = FRESHNESS_S
    """Simulated seconds from one round to the next."""
    moving: list[RoundFigures] = field(default_factory=list)
    """Rounds that moved rows, in order."""
    rounds: list[RoundFigures] = field(default_factory=list)
    """All rounds, in order."""
    upkeep_rounds: int = 0
    late_rounds: int = 0
    """Rows that were in the lake later than the freshness after their round was due."""
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._writer = LogWriter(self.world.storage, self.table.path, "bench")
        self._files = WrittenBytes(self.world.warehouse)
        self._by_rounds, self._by_all = Counter[FileKind](), Counter[FileKind]()

    def run(self, rounds: int, say: Callable[[Checkpoint], None]) -> None:
        """Runs this many rounds with rows, and calls `say` with each checkpoint."""
        stops = {*(stop for stop in CHECKPOINTS if stop < rounds), rounds}
        for number in range(1, rounds + 1):
            self._step(number)
            if number in stops:
                self.checkpoints.append(self._checkpoint(number))
                say(self.checkpoints[-1])

    def _step(self, number: int) -> None:
        self.workload.write(self._writer, number)
        self.world.clock.advance_to(number * self.every_s)
        due_at = self.world.clock.elapsed
        for figures in self.world.due_rounds(self.table):
            written = self._files.look(self.world.clock.now())
            self._by_all += written
            self.rounds.append(figures)
            if figures.is_upkeep:
                self.upkeep_rounds += 1
            else:
                self._by_rounds += written
            if figures.moved_rows:
                self.moving.append(figures)
                self.late_rounds += self.world.clock.elapsed > due_at + FRESHNESS_S
        self._by_all += self._files.look(self.world.clock.now())

    def _checkpoint(self, number: int) -> Checkpoint:
        rounds = self.moving[-WINDOW:]
        round_ms, cpu_ms, cpu_loops = (
            statistics.median(getattr(figures, name) for figures in rounds) for name in ("milliseconds", "cpu_ms", "cpu_loops")
        )
        sys_ms = self._sys_ms()
        first = self.checkpoints[0] if self.checkpoints else None
        files, sizes = sizes_by_kind(self.world.warehouse)
        data, plain = self._by_all[FileKind.DATA], self.workload.plain_bytes
        return Checkpoint(
            round=number,
            round_ms=round_ms,
            round_ratio=1.0 if first is None else round_ms / first.round_ms,
            cpu_ms=cpu_ms,
            cpu_loops=cpu_loops,
            cpu_ratio=1.0 if first is None else cpu_loops / first.cpu_loops,
            log_ms=statistics.median(figures.log_ms for figures in rounds),
            sys_ms=sys_ms,
            sys_ratio=1.0 if first is None else sys_ms / first.sys_ms,
            health=health_of(self.world, self.table.path),
            metadata_files=files[FileKind.TABLE_METADATA],
            metadata_bytes=sum(sizes[kind] for kind in METADATA),
            written_by_rounds=self._by_rounds[FileKind.DATA],
            written=data,
            changelog_written=self._by_all[FileKind.CHANGELOG],
            metadata_written=sum(self._by_all[kind] for kind in METADATA),
            upkeep_ratio=max(0, data - plain) / plain,
            upkeep_share=upkeep_share(self.rounds),
            upkeep_rounds=self.upkeep_rounds,
        )

    def _sys_ms(self) -> float:
        """Median milliseconds of a SELECT on the table's status, through the service that the catalog plugin calls."""

        async def read() -> list[float]:
            taken = []
            async with serving(self.world.coordinator) as client:
                await client.read(SYS_TABLE)  # opens the connection
                for _ in range(SYS_READS):
                    self.world.clock.advance(SYS_PAUSE_S)
                    began = time.perf_counter()
                    await client.read(SYS_TABLE)
                    taken.append((time.perf_counter() - began) * 1_000)
            return taken

        return statistics.median(asyncio.run(read()))


def upkeep_share(rounds: Sequence[RoundFigures]) -> float:
    """The share of upkeep in the CPU time of rounds: that of upkeep rounds, and what rounds with rows take on average beyond others if they
    rewrite files, too. What each round does for the table is not in it: manifests, expiry of snapshots, deletion of metadata files.
    """
    plain = [figures.cpu_ms for figures in rounds if figures.moved_rows and not figures.has_rewritten]
    merging = [figures.cpu_ms for figures in rounds if figures.moved_rows and figures.has_rewritten]
    upkeep = sum(figures.cpu_ms for figures in rounds if figures.is_upkeep)
    if plain and merging:
        upkeep += len(merging) * max(0.0, statistics.mean(merging) - statistics.mean(plain))
    total = sum(figures.cpu_ms for figures in rounds)
    return upkeep / total if total else 0.0


def say_progress(kind: str) -> Callable[[Checkpoint], None]:
    """Prints the figures of each checkpoint to standard error at once: a long run that is ended has them then."""

    def say(point: Checkpoint) -> None:
        print(f"{kind}: {json.dumps(point.as_json())}", file=sys.stderr, flush=True)

    return say
