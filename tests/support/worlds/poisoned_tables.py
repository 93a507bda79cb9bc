"""Very many tables on a simulated clock, of which a few are poisoned: the real coordinator, and tierers that do what a script says.

A row is written to each table every ROW_SECONDS. A round of a healthy table takes ROUND_SECONDS of a slot; one of a poisoned table ends as
its poison says, and a catalog that hangs keeps it until a deadline. As the real tierer does, a scripted one gives the slot of a round that
hangs to another table.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import START, HandTierer, World
from tiering.errors import (
    CommitOutcomeUnknown,
    DataCorrupt,
    LakeRolledBack,
    LakeTableReplaced,
    LakeUnavailable,
    LakewardError,
    RoundFailed,
    SchemaDrift,
    UnsupportedType,
)
from tiering.lake.catalog_timeouts import CHANGE_DEADLINE, READ_DEADLINE, REST_SOCKET
from tiering.model.rounds import Phase
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.round.tierer import HANGING_AFTER_MS
from tiering.rpc.v1 import coordinator_pb2 as pb

FRESHNESS_SECONDS = 120.0
ROW_SECONDS = 10.0
ROUND_SECONDS = 0.4
STEP_SECONDS = 0.2
"""Interval at which the coordinator looks at the clock."""
ONLY = BucketKey(None, 0)


@dataclass(frozen=True)
class Poison:
    """How each round of a table ends badly. `hangs_seconds`: before that it waits for an answer; `stuck_seconds`: from its beginning on
    the next ones are refused at once. `granted`: it hangs after its commit was granted.
    """

    name: str
    error: type[LakewardError]
    phase: Phase
    hangs_seconds: float = 0.0
    stuck_seconds: float = 0.0
    granted: bool = False
    message: str = "poisoned"


READ_SECONDS, COMMIT_SECONDS, SOCKET_SECONDS = (timeout.default / 1_000 for timeout in (READ_DEADLINE, CHANGE_DEADLINE, REST_SOCKET))

POISONS = (
    Poison("drift", SchemaDrift, Phase.PLAN),
    Poison("gone lake table", LakeTableReplaced, Phase.PLAN),
    Poison("damaged segment", DataCorrupt, Phase.READ),
    Poison("unwritable folder", LakeUnavailable, Phase.WRITE),
    Poison("unknown type", UnsupportedType, Phase.PLAN),
    Poison("rolled back", LakeRolledBack, Phase.PLAN),
    Poison("silent catalog", LakeUnavailable, Phase.PLAN, READ_SECONDS, SOCKET_SECONDS),
    Poison("catalog that answers a byte now and then", LakeUnavailable, Phase.PLAN, READ_SECONDS, float("inf")),
    Poison("commit without an answer", CommitOutcomeUnknown, Phase.LAKE_COMMIT, COMMIT_SECONDS, granted=True),
    Poison("endless error text", RoundFailed, Phase.READ, message="x" * 100_000),
)


@dataclass
class ScriptedTierer:
    """`free_at`: when the slots of its rounds are free again, by round id."""

    hand: HandTierer
    slots: int
    free_at: dict[str, float] = field(default_factory=dict)

    def free_slots(self, now: float) -> int:
        return self.slots - sum(time > now for time in self.free_at.values())


class PoisonedTables:
    """See the module. `peaks` has of each commit of a healthy table the age of the oldest row that it brought to the lake."""

    def __init__(self, tables: int, poisoned: int, tierers: int, slots: int) -> None:
        infos = [_table(number, tables) for number in range(1, tables + 1)]
        self.poisons = {
            info.table_id: POISONS[number % len(POISONS)] for number, info in enumerate(infos[:: tables // poisoned][:poisoned])
        }
        self.world = World(tuple(infos))
        self._infos = {info.table_id: info for info in infos}
        self.tierers = [ScriptedTierer(_QuickHands(self.world, f"tierer-{number}", self._infos), slots) for number in range(tierers)]
        self.peaks: list[float] = []
        self.attempts: dict[str, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._reached = dict.fromkeys(self._infos, 0)
        self._stuck_until: dict[int, float] = {}

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return (self.world.clock.now() - START).total_seconds()

    def run(self, seconds: float) -> None:
        """Runs for this time. Commits of the first freshness, in which all tables begin without rows, do not count."""
        end = self.now + seconds
        while self.now < end:
            self.world.clock.advance(STEP_SECONDS)
            self.world.coordinator.advance()
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            for tierer in self.tierers:
                self._fill(tierer)

    def _fill(self, tierer: ScriptedTierer) -> None:
        while tierer.free_slots(self.now) > 0:
            response = tierer.hand.beat(request=True)
            if not response.HasField("tiering_table"):
                return
            self._begin(tierer, response.tiering_table)

    def _begin(self, tierer: ScriptedTierer, info: pb.PbLakeTieringTableInfo) -> None:
        poison, seconds = self.poisons.get(info.table_id), ROUND_SECONDS
        if poison is not None:
            self.attempts[poison.name] = self.attempts.get(poison.name, 0) + 1
            if poison.hangs_seconds and self._stuck_until.get(info.table_id, 0.0) <= self.now:
                self._stuck_until[info.table_id] = self.now + poison.stuck_seconds
                seconds = poison.hangs_seconds
        tierer.free_at[info.round_id] = self.now + min(seconds, HANGING_AFTER_MS / 1_000)
        end = self._rows(info.table_id, self.now)
        self.world.cluster.logs[info.table_id] = {ONLY: (0, end)}
        if poison is not None and poison.granted:
            tierer.hand.plan(info)
            assert tierer.hand.begin(info, tierer.hand.prepare(info)).granted
        ending = (lambda: self._succeed(tierer, info, end)) if poison is None else (lambda: self._fail(tierer, info, poison))
        heapq.heappush(self._events, (self.now + seconds, next(self._order), ending))

    def _succeed(self, tierer: ScriptedTierer, info: pb.PbLakeTieringTableInfo, end: int) -> None:
        tierer.hand.commit(info)
        tierer.hand.ack(info)
        before, self._reached[info.table_id] = self._reached[info.table_id], end
        if before and end > before:
            self.peaks.append(self.now - self._written_at(info.table_id, before))
        del tierer.free_at[info.round_id]
        tierer.hand.finish(info)

    def _fail(self, tierer: ScriptedTierer, info: pb.PbLakeTieringTableInfo, poison: Poison) -> None:
        error = poison.error(poison.message) if poison.error is not RoundFailed else RoundFailed(poison.message, cause_class="Endless")
        fields: dict[str, Any] = {"error_class": error.error_class, "error_phase": poison.phase.value, "error_retryable": error.retryable}
        del tierer.free_at[info.round_id]
        tierer.hand.fail(info, error_message=poison.message[:2_048], **fields)

    def _rows(self, table_id: int, at: float) -> int:
        """Rows written until then."""
        return 1 + int((at - self._phase(table_id)) // ROW_SECONDS)

    def _written_at(self, table_id: int, offset: int) -> float:
        return self._phase(table_id) + offset * ROW_SECONDS

    def _phase(self, table_id: int) -> float:
        return (table_id % 97) / 97 * ROW_SECONDS - ROW_SECONDS


class _QuickHands(HandTierer):
    """Finds a table without a look at all of them."""

    def __init__(self, world: World, name: str, infos: dict[int, TableInfo]) -> None:
        super().__init__(world, name)
        self._infos = infos

    def message(self, **fields: Any) -> pb.LakeTieringHeartbeatRequest:
        message = super().message(**fields)
        message.tierer.slots = 4
        return message

    def _table(self, info: pb.PbLakeTieringTableInfo) -> TableInfo:
        return self._infos[info.table_id]


def _table(number: int, tables: int) -> TableInfo:
    """Returns a table whose first due time is anywhere within the first freshness."""
    since = START - timedelta(seconds=FRESHNESS_SECONDS * number / tables)
    table = log_table(number, TablePath("many", f"t{number:04}"), buckets=1)
    return replace(table, freshness_ms=int(FRESHNESS_SECONDS * 1_000), created_at=since, lake_enabled_at=since)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
