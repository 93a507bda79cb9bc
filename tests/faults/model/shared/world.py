"""The states of a table beside Flink's tiering: everything that survives a step, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from faults.model.shared.lake_table import ClusterRecord, LakeTable, Log, Mark, OffsetsFile, Record, Snapshot
from faults.model.shared.looks import Known, Own, Stand
from faults.model.shared.rules import ALL_SHARED_RULES, Part

LOG_RECORDS: tuple[Record, ...] = (("I", 0), ("I", 1), ("I", 2), ("I", 3))
KEYED_RECORDS: tuple[Record, ...] = (("I", 0), ("U", 0), ("I", 1), ("U", 0))
"""A stale round that read [1, 2) sets key 0 back, one that read [1, 3) doubles key 1."""


@dataclass(frozen=True)
class Size:
    """How much may happen: a world of a given size is finite.

    The lake holds the first of `records` by a round of ours. The last is written when all is quiet again, the `writes` before it at any
    time, and the log holds the others.
    `strict`: Flink's rounds keep to their turns, as healthy ones do; else any of them may have been taken for dead, and go on.
    """

    records: tuple[Record, ...] = LOG_RECORDS
    keyed: bool = False
    writes: int = 0
    flinks: int = 2
    rounds: int = 2
    users: int = 0
    faults: int = 0
    user_actions: frozenset[str] = frozenset(("compact", "expire", "roll back", "reconcile"))
    fault_actions: frozenset[str] = frozenset(("tierer dies", "request is lost", "coordinator dies", "lapse", "flink dies", "stop early"))
    strict: bool = False
    compacts: bool = False
    """Whether Flink's rounds may compact behind their append."""
    kv_snapshots: bool = False
    begins: str = "tiered"
    """`untiered`, `tiered`, `doubled` or `deduplicated` (`starts`)."""
    rules: frozenset[Part] = field(default=ALL_SHARED_RULES)

    def has(self, rule: Part) -> bool:
        """Whether the rule holds."""
        return rule in self.rules


class Flink(NamedTuple):
    """An incarnation of Flink's committer: the step that it did last, and what it knows."""

    number: int
    step: str = "planned"
    start: int | None = None
    stop: int = 0
    file: OffsetsFile | None = None
    snapshot_id: int | None = None


class Round(NamedTuple):
    """A round of ours in its tierer. `cluster` is what it read of the cluster's record: id and end, and whether it could be read."""

    id: int
    known: Known
    unresolved: bool
    step: str = "assigned"
    cluster: tuple[Own | None, bool] = (None, True)
    stand: Stand | None = None
    lake: LakeTable | None = None
    begin: int = 0
    stop: int = 0
    start: int = 0
    from_snapshot: bool = False
    mark: Mark | None = None
    file: OffsetsFile | None = None
    sent: int = 0


class Request(NamedTuple):
    """A commit on its way. `kind` is `round` or the action of a reconciliation.

    `removes`: doubled rows go, and those from `ceiling` on; of a primary-key table all."""

    kind: str
    head: int | None
    tag: int | None
    mark: Mark
    file: OffsetsFile
    begin: int = 0
    stop: int = 0
    from_snapshot: bool = False
    removes: bool = False
    ceiling: int | None = None


class Ack(NamedTuple):
    """The coordinator looks at the lake for a round, and tells the cluster. Gone with its process."""

    round_id: int
    step: str = "begun"
    cluster: tuple[Own | None, bool] = (None, True)
    stand: Stand | None = None
    lake: LakeTable | None = None
    file: OffsetsFile | None = None
    keep: int | None = None


class Coordinator(NamedTuple):
    """The store's record of the table."""

    epoch: int = 1
    running: int | None = None
    granted: bool = False
    own: Own | None = None
    passed_head: int | None = None
    unresolved: int | None = None
    marker_tells: bool = True
    error: str = ""
    hints: tuple[str, ...] = ()


class World(NamedTuple):
    """See the module. `facts` have happened, `excused` are rows that a user took out; `peace` counts the rounds of a continuation."""

    log: Log
    lake: LakeTable
    cluster: ClusterRecord
    record: Coordinator
    flinks_left: int
    rounds_left: int
    users: int
    faults: int
    turn: str = ""
    round: Round | None = None
    flinks: tuple[Flink, ...] = ()
    requests: tuple[Request, ...] = ()
    ack: Ack | None = None
    call: Request | None = None
    facts: frozenset[str] = frozenset()
    excused: frozenset[int] = frozenset()
    next_flink: int = 1
    peace: int = 0
    broken: str = ""

    def known(self) -> Known:
        """The record that is sent with an assignment."""
        return Known(self.record.own, self.record.passed_head)

    def recorded(self) -> tuple[Own | None, bool]:
        """The cluster's record, and whether its file could be read."""
        latest = self.cluster.latest
        if latest is None or not self.cluster.is_readable:
            return None, self.cluster.is_readable
        return Own(latest, self.cluster.end), True

    def changing(self, **changes: object) -> World:
        """With changes of the coordinator's record."""
        return self._replace(record=self.record._replace(**changes))  # type: ignore[arg-type]

    def with_flink(self, before: Flink, after: Flink | None) -> World:
        """Which incarnation is which makes no difference: they are kept in order. The last of them ends Flink's turn."""
        flinks = [other for other in self.flinks if other is not before]
        if after is not None:
            flinks.append(after)
        turn = "" if self.turn == "flink" and not flinks else self.turn
        return self._replace(flinks=tuple(sorted(flinks, key=lambda flink: flink.number)), turn=turn)


def initial(size: Size) -> World:
    """A healthy table of which the lake has the first record, by a round of ours, or none."""
    log = Log(size.records, 0, len(size.records) - 1 - size.writes, size.keyed)
    if size.begins == "untiered":
        return World(log, LakeTable(), ClusterRecord(), Coordinator(), size.flinks, size.rounds, size.users, size.faults)
    ours, registered = OffsetsFile("summary", 1, 1), OffsetsFile("registered", 1, 1)
    lake = LakeTable().with_snapshot(Snapshot(0, None, "ours", log.truth(1), ours, Mark(1, None, 0, 1)))
    cluster = ClusterRecord().with_file(ours).with_file(registered).registering(1, registered, -1)
    record = Coordinator(own=Own(1, 1, False, 1), passed_head=1)
    return World(log, lake, cluster, record, size.flinks, size.rounds, size.users, size.faults)
