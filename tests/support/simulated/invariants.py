"""Invariants (DESIGN 11), checked when a commit lands, a file is deleted, a record is written or a round is assigned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from support.lakes.memory_lake import MemoryTable, Range, Request
from support.simulated.cluster import CYCLE, SimulatedCluster
from support.simulated.granted_rounds import GrantedRounds
from support.simulated.lake import SimulatedLake
from support.simulated.processes import HandLeaseKeeper
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.store import Writes
from tiering.errors import LakewardError
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo

Gaps = dict[BucketKey, set[int]]
LEGAL = frozenset(
    {
        (None, "New"),
        (None, "Initialized"),
        ("New", "Scheduled"),
        ("Initialized", "Scheduled"),
        ("Scheduled", "Pending"),
        ("Pending", "Tiering"),
        ("Tiering", "Tiered"),
        ("Tiering", "Failed"),
        ("Tiered", "Scheduled"),
        ("Tiered", "Pending"),
        ("Failed", "Pending"),
    }
)
"""Changes of a table's state (DESIGN 5), written down once more; any state is left for none."""


class Invariants:
    """Raises AssertionError as soon as one is broken; the first is kept in `broken`, because a round takes any error for a failure.

    A reconciliation may leave records out. `gaps` has them, by lake table and bucket.
    """

    def __init__(self, cluster: SimulatedCluster, lake: SimulatedLake) -> None:
        self._cluster, self._lake = cluster, lake
        self.broken: str | None = None
        self.gaps: defaultdict[str, Gaps] = defaultdict(dict)
        self.retiered: set[str] = set()
        """Lake tables of primary-key tables to which changes may have been applied twice."""
        self.landed_rounds: set[str] = set()
        self.cancelled_rounds: set[str] = set()
        """Rounds of which an operator was told that they are cancelled."""
        self.lake_table_of: dict[int, str] = {}
        """By source table, the lake table that it was tiered to last."""
        self.rewritten: dict[tuple[int, BucketKey], int] = {}
        """Rounds that landed since a bucket's log was rewritten below what was tiered: one may have been under way."""
        self.knows_processes = False
        """Whether no process is of an older version."""
        self.landed: defaultdict[int, dict[BucketKey, int]] = defaultdict(dict)
        """By source table, how far any marker ever went."""
        self.marked: dict[int, dict[BucketKey, int]] = {}
        """By source table, how far the newest marker goes."""
        self.traced: dict[int, Collection[BucketKey]] = {}
        """By source table, the buckets of which the newest marker knows the last record."""
        self.rounds_of: dict[str, str | None] = {}
        """By round, the process that has it."""
        self.infos: dict[int, TableInfo] = {}
        self._granted = GrantedRounds()
        self.repairs = 0
        """How many reconciliations run just now: they may make a lake table anew."""
        self.may_still_commit: Callable[[], Collection[str]] = frozenset
        """Files that rounds under way will name in their commits, if the lake takes these."""
        cluster.on_record = self.recorded
        lake.on_landing, lake.on_delete, lake.on_making = self.commit_landed, self.file_deleted, self.lake_table_made
        lake.on_set_back = self.landed_rounds.difference_update  # a request of them that is repeated lands on their base again

    def commit_landed(self, request: Request, base: Marker | None) -> None:
        """Each offset once, markers in a chain, nothing beyond the log, a round once. `base`: the newest marker before."""
        marker, after = request.marker, self._lake.tables[request.path]
        head = after.head
        assert head is not None
        self._require(marker.round_id not in self.landed_rounds, f"round {marker.round_id} landed twice")
        self.landed_rounds.add(marker.round_id)
        self._require(marker.base_round_id == (None if base is None else base.round_id), f"the chain of {request.path} is broken")
        if base is not None and base.table_id == marker.table_id:
            self._require(marker.tiering_epoch > base.tiering_epoch, f"epoch {marker.tiering_epoch} after {base.tiering_epoch}")
        self._require(marker.round_id not in self.cancelled_rounds, f"round {marker.round_id} landed, which was cancelled")
        info = self.infos[marker.table_id]
        lacks = {request.manifest, *(file for *_, file in after.rows[head])} - self._lake.files.keys()
        self._require(not lacks, f"{request.path} names {lacks}, which are gone")
        self._check_lake_table(request)
        self._check_owner(request, after.rows[head])
        self._check_archive(request, after, head, info)
        moved = request.is_upkeep and (base is None or dict(base.buckets) != dict(marker.buckets))
        self._require(not moved, f"the upkeep round {marker.round_id} moved offsets of {request.path}")
        if _is_statement(request):
            self._begin_anew(request, info)
        for bucket, reached in marker.buckets.items():
            _, end = self._cluster.all_logs[marker.table_id][bucket]
            self._require(reached.tiered <= end, f"the marker of {request.path} is beyond the log of bucket {bucket}")
            self._check_pairs(request, info, bucket, reached.tiered)
            rows = [row for row in after.rows[head] if row[0] == bucket]
            self._check_rows(request, info, bucket, reached.start, reached.tiered, rows, end_of_log=end)
            self.landed[marker.table_id][bucket] = max(reached.tiered, self.landed[marker.table_id].get(bucket, 0))
        self.marked[marker.table_id] = {bucket: reached.tiered for bucket, reached in marker.buckets.items()}
        self.traced[marker.table_id] = marker.traces.keys()

    def _check_pairs(self, request: Request, info: TableInfo, bucket: BucketKey, tiered: int) -> None:
        """A `-U` comes with its `+U`, unless that is the record at which its bucket stands, or stood: then it changes nothing."""
        is_within = bool(info.primary_key) and tiered % len(CYCLE) == 2
        place = (info.table_id, bucket)
        stood = self._cluster.standing.get(place) == tiered or (*place, tiered) in self._cluster.skipped
        self._require(not is_within or stood, f"{bucket} of {request.path} stops within an update")

    def _begin_anew(self, request: Request, info: TableInfo) -> None:
        """Buckets that a reconciliation's marker lacks begin with their log again: of them only what that lost stays left out."""
        gaps, living = self.gaps[request.uuid], self._cluster.buckets(info)
        for bucket in gaps.keys() - request.marker.buckets.keys():
            log_start, _ = self._cluster.all_logs[info.table_id][bucket]
            is_known = bucket in living and bucket in self.marked.get(info.table_id, {})
            gaps[bucket] = {offset for offset in gaps[bucket] if is_known and offset < log_start}

    def _check_lake_table(self, request: Request) -> None:
        """Checks that a source table continues in another lake table, or behind rewritten records, only after a user's request."""
        table_id, is_round = request.marker.table_id, not _is_statement(request)
        before = self.lake_table_of.setdefault(table_id, request.uuid)
        self._require(before == request.uuid or not is_round, f"{request.path} goes on in {request.uuid}, it was tiered to {before}")
        self.lake_table_of[table_id] = request.uuid
        for key in [key for key in self.rewritten if key[0] == table_id]:
            self.rewritten[key] += 1
            if not is_round or key[1] not in request.marker.buckets:  # its partition was dropped
                del self.rewritten[key]
            else:
                self._require(self.rewritten[key] < 2, f"bucket {key[1]} of {request.path} goes on though its log was rewritten")

    def log_rewritten(self, table: TableInfo, bucket: BucketKey, first: int) -> None:
        """Records from `first` on were lost, and written anew."""
        if first < self.marked.get(table.table_id, {}).get(bucket, 0) and bucket in self.traced[table.table_id]:
            self.rewritten[table.table_id, bucket] = 0

    def log_cut(self, table: TableInfo, bucket: BucketKey, start: int) -> None:
        """Retention removed the records below `start`; if the last tiered record is among them, its identity is no longer known."""
        if start >= self.marked.get(table.table_id, {}).get(bucket, 0):
            self.rewritten.pop((table.table_id, bucket), None)

    def lake_table_made(self, table: TableInfo) -> None:
        """Checks that no round creates a lake table in the place of a recorded one: a user who wants to restore that one finds its name
        free."""
        is_recorded = table.table_id in self._cluster.recorded
        self._require(not is_recorded or self.repairs > 0, f"a lake table is made anew in the place of that of {table.path}")

    def _check_owner(self, request: Request, rows: Iterable[Range]) -> None:
        owners = {self._lake.contents[file].table_id for *_, file in rows}
        self._require(owners <= {request.marker.table_id}, f"{request.path} has rows of the tables {owners}")

    def _check_archive(self, request: Request, after: MemoryTable, head: int, info: TableInfo) -> None:
        """Archived rows stay in the lake: no round takes away those of a partition that was dropped."""
        parent, living = after.snapshots[head].parent_id, self._cluster.partitions_of[info.table_id]
        before = after.rows[parent] if parent is not None and not _is_statement(request) else ()
        archived = {row for row in before if row[0].partition_id is not None and row[0].partition_id not in living}
        lost = archived - set(after.rows[head])
        self._require(not lost, f"{request.path} lost rows of partitions that were dropped: {sorted(lost, key=str)}")

    def _check_rows(
        self, request: Request, info: TableInfo, bucket: BucketKey, start: int, tiered: int, rows: list[Range], end_of_log: int
    ) -> None:
        start = 0 if info.primary_key else start  # what was before its log is in a KV snapshot
        reached, missing = start, set[int]()
        doubled = False
        for first, stop in sorted((first, stop) for _, first, stop, _ in rows if stop > first):
            missing |= set(range(reached, first))
            doubled |= first < reached
            reached = max(reached, stop)
        missing |= set(range(reached, tiered))
        if _is_statement(request):  # a reconciliation: what it leaves out it says (`Users.reconcile`)
            self.gaps[request.uuid][bucket] = missing
            self.retiered.add(request.uuid)
        gaps = self.gaps[request.uuid].get(bucket, set())
        may_repeat = bool(info.primary_key) and request.uuid in self.retiered
        message = f"bucket {bucket} of {request.path} has rows up to {reached}, its marker says {tiered}"
        self._require(reached <= tiered or may_repeat, message)
        self._require(missing <= gaps, f"bucket {bucket} of {request.path} lacks {sorted(missing - gaps)} of [{start}, {tiered})")
        self._require(not doubled or may_repeat, f"bucket {bucket} of {request.path} has offsets twice: {sorted(rows)}")
        log_start, _ = self._cluster.all_logs[info.table_id][bucket]
        self._require(start <= log_start or not rows, f"bucket {bucket} of {request.path} begins at {start}, its log at {log_start}")

    def _require(self, holds: bool, complaint: str) -> None:
        if not holds:
            self.broken = self.broken or complaint
            raise AssertionError(self.broken)

    def gap(self, uuid: str) -> int:
        """Records that reconciliations left out of a lake table."""
        return sum(map(len, self.gaps[uuid].values()))

    def file_deleted(self, name: str) -> None:
        """No snapshot names it, and no commit that may still land."""
        for path, table in self._lake.tables.items():
            for snapshot in table.snapshots:
                self._require(name not in table.named[snapshot], f"{name} is deleted, which snapshot {snapshot} of {path} names")
        for request in self._lake.late:
            table = self._lake.tables.get(request.path)
            bases = set() if table is None else {self._lake.tiered(table), *table.snapshots}  # a user may roll back to any of them
            if table is not None and table.uuid == request.uuid and request.tiered in bases:
                names = {request.manifest, *(file for *_, file in request.ranges), *(rewrite.file for rewrite in request.rewrites)}
                self._require(name not in names, f"{name} is deleted, which a late commit of {request.path} names")
        self._require(name not in self.may_still_commit(), f"{name} is deleted, which a round under way needs")

    def recorded(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """The cluster is never told more than a marker in the lake ever said: it may cut its log up to there."""
        landed = self.landed[table.table_id]
        for bucket, offset in snapshot.offsets.items():
            self._require(offset <= landed.get(bucket, 0), f"{table.path} is recorded up to {offset} in {bucket}, the lake is at {landed}")

    def handed_out(self, round_id: str, incarnation: str | None, *, is_known: bool) -> None:
        """A round is one process's; of one that an older process may have had, which no `is_known` tells apart, nothing is said."""
        if incarnation is None or not (is_known or self.knows_processes):
            self.rounds_of[round_id] = None
            return
        owner = self.rounds_of.setdefault(round_id, incarnation)
        self._require(owner in (incarnation, None), f"round {round_id} is handed to {incarnation}, and {owner} has it")

    def granted(self, assignment: Assignment, stored: Iterable[TableRecord]) -> None:
        """One round of a table at a time."""
        complaint = self._granted.complaint(assignment, stored)
        self._require(complaint is None, complaint or "")

    def written(self, writes: Writes) -> None:
        """Each change of a table's state is a legal one."""
        for event in writes.events:
            if "from" in event.details and event.event_type.startswith("TABLE_"):
                source, target = event.details["from"], event.details["to"]
                self._require(target is None or (source, target) in LEGAL, f"{event.table_name} went from {source} to {target}")

    def excuse(self, error: LakewardError) -> None:
        """Ignores an error of a caller: an error without a class of its own counts as a defect."""
        self._require(type(error) is not LakewardError, f"nothing explains {error!r}")

    def leases_kept(self, keeper: HandLeaseKeeper) -> None:
        """Checks that a tierer's KV snapshots are leased and not old, once it had its turn, except where a lease was released behind its
        back."""
        leased, lease = keeper._all_snapshot_ids(), self._cluster.held_leases.get(keeper._lease_id)
        if not leased or keeper._lease_id in self._cluster.dropped_leases:
            return
        age = keeper._ttl_ms if lease is None else self._cluster.clock.ms - lease.renewed_ms
        lacks = leased.items() - (lease.snapshots.items() if lease is not None else set())
        self._require(age < keeper._ttl_ms // 3, f"the lease of {keeper._lease_id} was not renewed for {age} ms")
        self._require(not lacks, f"the lease of {keeper._lease_id} lacks {lacks}")


def _is_statement(request: Request) -> bool:
    """Whether the commit is one of `reconcile_lake`, with which a user says what the lake lacks."""
    return not request.ranges and not request.is_upkeep
