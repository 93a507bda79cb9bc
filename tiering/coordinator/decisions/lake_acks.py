"""Pure decisions about what the lake holds: acks, adoptions, and how they settle the ledger of grants (DESIGN 6.7-6.8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tiering.coordinator.decisions import backlog
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.error_kinds import is_bucket_stopped
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import (
    CommitState,
    LakeCommitRecord,
    LakeKnowledge,
    Level,
    TableRecord,
    TextOffsets,
    from_text,
    to_text,
)
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof, Proofs
from tiering.model.tables import BucketKey, SkippedRecords, TableType

CONFIRMED_FOR = timedelta(hours=2)
"""How long the success of a round confirms the lake table, at least. A healthy table has a round once in its freshness."""

PROOFS_LIMIT_CHARACTERS = 64 * 1024
"""Proofs of a table that are longer, at some 70 characters a bucket, are not recorded: each change of its record writes them again."""


@dataclass(frozen=True)
class LakeSize:
    """Totals of a whole lake table, from its newest snapshot; None = its writers kept no totals."""

    records: int | None
    size_bytes: int | None
    files: int | None
    location: str | None


@dataclass(frozen=True)
class LakeContents:
    """Marker, head and size of a lake table, as read from the lake itself. `acker` is the round whose ack made the coordinator read it.

    `snapshot_id` is the newest tiering snapshot and `offsets` are its ends; beside another service `marker_snapshot_id`, that of the
    marker, may be older. `starts`: where the rows of buckets begin of which the lake lacks the first.
    `head` is its identity (`LakeSnapshot.identity`).
    """

    snapshot_id: int
    offsets: TextOffsets
    marker_round_id: str
    table_uuid: str
    acker: str
    head: int | None
    size: LakeSize
    marker_snapshot_id: int | None = None
    marker_epoch: int | None = None
    moved_back: TextOffsets = field(default_factory=dict)
    starts: TextOffsets = field(default_factory=dict)
    skipped: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By bucket the records that the marker names as left out, with their traces; without those that have none."""
    proofs: Proofs = field(default_factory=dict)
    """What the marker proves of buckets whose ends are those of `offsets`."""
    traces: Mapping[BucketKey, str] = field(default_factory=dict)
    """What the cluster knows the records before the marker's ends by."""

    @property
    def marked(self) -> int:
        """The snapshot that has the marker."""
        return self.snapshot_id if self.marker_snapshot_id is None else self.marker_snapshot_id


def late_starts(ranges: Mapping[BucketKey, TieredRange]) -> dict[str, int]:
    """Of a marker's ranges those starts that are not 0, as records keep them."""
    return to_text({bucket: tiered.start for bucket, tiered in ranges.items() if tiered.start > 0})


def recorded_proofs(record: TableRecord, proofs: Proofs) -> dict[str, str]:
    """Returns the proofs of a marker as `LakeKnowledge.proofs` keeps them. Only rows of log tables are compared with them later."""
    if record.table_type != TableType.LOG:
        return {}
    texts = {str(bucket): proofs[bucket].text for bucket in sorted(proofs, key=BucketKey.sort_key)}
    return texts if sum(len(bucket) + len(text) for bucket, text in texts.items()) <= PROOFS_LIMIT_CHARACTERS else {}


def recorded_traces(traces: Mapping[BucketKey, str]) -> dict[str, str]:
    """Returns the traces of a marker as `LakeKnowledge.traces` keeps them."""
    return {str(bucket): traces[bucket] for bucket in sorted(traces, key=BucketKey.sort_key)}


def recorded_marker(record: TableRecord, cluster_id: str) -> Marker | None:
    """Returns the newest marker as far as it is recorded; None without proofs and traces.

    It takes the place of a marker that expired in the lake table. It has no base round and no skipped records.
    """
    lake = record.lake
    if not (lake.proofs or lake.traces) or lake.offsets is None or lake.table_uuid is None or lake.marker_round_id is None:
        return None
    starts = from_text(lake.starts or {})
    ranges = {bucket: TieredRange(starts.get(bucket, 0), tiered) for bucket, tiered in from_text(lake.offsets).items()}
    proofs = {BucketKey.parse(bucket): BucketProof.parse(text) for bucket, text in lake.proofs.items()}
    traces = {BucketKey.parse(bucket): trace for bucket, trace in lake.traces.items()}
    return Marker(
        cluster_id,
        record.table_id,
        lake.table_uuid,
        lake.marker_round_id,
        record.tiering_epoch,
        None,
        ranges,
        proofs=proofs,
        traces=traces,
    )


def traced_records(skipped: SkippedRecords) -> dict[str, dict[int, str]]:
    """The skipped records of a marker that have a trace. Without one nothing tells later whether the log has another record there."""
    return {
        str(bucket): traces
        for bucket, records in skipped.items()
        if (traces := {offset: trace for offset, trace in records.items() if trace is not None})
    }


def archived_records(lake: LakeKnowledge, table_uuid: str, offsets: TextOffsets) -> int:
    """Returns `LakeKnowledge.archived_records` once the lake table `table_uuid` holds `offsets`, which have living partitions alone."""
    if lake.table_uuid != table_uuid:
        return 0
    return lake.archived_records + tiered_of_dropped(lake, {bucket.partition_id for bucket in from_text(offsets)})


def tiered_of_dropped(lake: LakeKnowledge, living: Collection[int | None]) -> int:
    """Returns how many records were tiered of the partitions that are on record and not among the `living` ones."""
    recorded = {bucket.partition_id for bucket in from_text(lake.offsets or {}) if bucket.partition_id is not None}
    return tiered_of(lake, recorded.difference(living))


def tiered_of(lake: LakeKnowledge, partitions: Collection[int | None]) -> int:
    """Returns how many records were tiered of these partitions, as is on record."""
    starts = from_text(lake.starts or {})
    tiered = from_text(lake.offsets or {}).items()
    return sum(offset - starts.get(bucket, 0) for bucket, offset in tiered if bucket.partition_id in partitions)


def is_behind(offsets: TextOffsets, recorded: TextOffsets | None) -> bool:
    """Whether `offsets` are below `recorded` in any bucket: then they are older and came late. Vanished partitions do not count."""
    return any(offsets[bucket] < tiered for bucket, tiered in (recorded or {}).items() if bucket in offsets)


def record_passed_head(record: TableRecord, head: int | None) -> Change:
    """Records the head that the coordinator's own base check passed: later checks need the lake's history only back to it."""
    if head is None or head == record.lake.passed_head:
        return Change(record, durable=False)
    return Change(record).update(lake=replace(record.lake, passed_head=head))


def record_contents(ctx: Context, record: TableRecord, contents: LakeContents, ledger: Sequence[LakeCommitRecord]) -> Change:
    """Records what the lake holds. `ledger`: this table's rows that are not resolved, and those they build on."""
    lake = record.lake
    unresolved = _still_unresolved(lake.unresolved_epoch, contents)
    same = (lake.snapshot_id, lake.marker_round_id) == (contents.snapshot_id, contents.marker_round_id) and lake.offsets == contents.offsets
    if same and lake.moved_back == contents.moved_back and lake.unresolved_epoch == unresolved:
        return _settle(record_passed_head(record, contents.head), ctx, contents, ledger)
    known = replace(
        lake,
        table_uuid=contents.table_uuid,
        passed_head=contents.head,
        snapshot_id=contents.snapshot_id,
        offsets=contents.offsets,
        marker_round_id=contents.marker_round_id,
        records=contents.size.records,
        size_bytes=contents.size.size_bytes,
        files=contents.size.files,
        location=contents.size.location,
        moved_back=contents.moved_back,
        unresolved_epoch=unresolved,
        starts=contents.starts,
        proofs=recorded_proofs(record, contents.proofs),
        traces=recorded_traces(contents.traces),
        archived_records=archived_records(lake, contents.table_uuid, contents.offsets),
    )
    for bucket, traces in contents.skipped.items():  # a restored store may have lost them
        for offset, trace in traces.items():
            known = known if offset in known.skipped.get(bucket, ()) else known.with_skipped(bucket, offset, trace)
    change = Change(record).update(lake=known)
    if contents.offsets != lake.offsets:  # an upkeep round brings no rows
        change = change.update(last_tiered_time=ctx.now.wall)
    change = backlog.finish_passed(change, ctx, contents.offsets)
    own = record.running is not None and record.running.round_id == contents.marker_round_id
    if own:
        change = change.update_round(acked=True, lake_snapshot_id=contents.marked)
    name, level = ("SNAPSHOT_ACKED", Level.INFO) if own else ("SNAPSHOT_ADOPTED", Level.WARN)
    change = change.note(ctx, name, f"the lake holds round {contents.marker_round_id}", level, lake_snapshot_id=contents.snapshot_id)
    if set(contents.moved_back) - set(lake.moved_back):
        change = change.note(ctx, "BUCKETS_REPLAYED", _replayed(contents), Level.WARN, lake_snapshot_id=contents.snapshot_id)
    return _settle(change, ctx, contents, ledger)


def _still_unresolved(epoch: int | None, contents: LakeContents) -> int | None:
    """A marker of that epoch or of a later one decides: the request landed, or its compare-and-set names a tag that has moved."""
    decided = epoch is not None and contents.marker_epoch is not None and contents.marker_epoch >= epoch
    return None if decided else epoch


def late_commits(record: TableRecord, ledger: Sequence[LakeCommitRecord]) -> list[LakeCommitRecord] | None:
    """The commits of ended rounds that may still land in the present lake table; None = the ledger does not have all of them.

    `ledger`: the table's rows that are not resolved. A state store that was restored may lack rows.
    """
    epoch = record.lake.unresolved_epoch
    rows = [row for row in ledger if not row.state.is_resolved and row.lake_table_uuid in (None, record.lake.table_uuid)]
    return rows if epoch is None or any(row.tiering_epoch == epoch for row in rows) else None


def _replayed(contents: LakeContents) -> str:
    starts = ", ".join(f"bucket {bucket} from offset {offset}" for bucket, offset in contents.moved_back.items())
    return f"another tiering service committed changes that it had read before others came: the next round replays {starts}"


def _settle(change: Change, ctx: Context, contents: LakeContents, ledger: Sequence[LakeCommitRecord]) -> Change:
    """Settles the ledger rows about which the marker decides: its round is in the lake, and so are the rounds it builds on.

    A grant of an earlier epoch outside that chain can never land: its base is no longer the newest tiering commit.
    """
    rows = {row.round_id: row for row in ledger}
    if change.record.commit is not None:
        rows[change.record.commit.round_id] = change.record.commit
    chain = chain_of(contents.marker_round_id, rows)
    newest = rows.get(contents.marker_round_id)
    for row in rows.values():
        settled = row
        if row.round_id == contents.marker_round_id and row.state in (CommitState.PREPARED, CommitState.UNKNOWN):
            settled = replace(row, lake_snapshot_id=contents.marked, lake_committed_at=ctx.now.wall, state=CommitState.LAKE_COMMITTED)
        elif row.round_id in chain and not row.state.is_resolved and row is not newest:
            settled = replace(row, state=CommitState.RECONCILED, reconciled_by=contents.acker)
        elif newest is not None and not row.state.is_resolved and row.tiering_epoch < newest.tiering_epoch:
            # What was granted for another lake table may be in that one, wherever it stands now.
            elsewhere = row.lake_table_uuid is not None and row.lake_table_uuid != newest.lake_table_uuid
            state = CommitState.UNKNOWN if elsewhere else CommitState.ABORTED
            settled = row if row.state is state else replace(row, state=state, reconciled_by=None if elsewhere else contents.acker)
        if settled is not row:
            change = replace(change.update_commit(settled), durable=True)
    return change


def chain_of(round_id: str, rows: Mapping[str, LakeCommitRecord]) -> frozenset[str]:
    """The round and those it builds on, as far as the ledger goes."""
    chain: set[str] = set()
    at: str | None = round_id
    while at is not None and at not in chain:
        chain.add(at)
        row = rows.get(at)
        at = row.base_round_id if row else None
    return frozenset(chain)


def record_cluster_has_it(ctx: Context, record: TableRecord, contents: LakeContents, row: LakeCommitRecord | None) -> Change:
    """The ledger row of the marker's round after the cluster recorded the snapshot too: ACKED if it acked itself, else RECONCILED."""
    if row is None or row.state.is_resolved:
        return replace(Change(record), durable=False)
    if contents.acker == contents.marker_round_id:
        return Change(record).update_commit(replace(row, state=CommitState.ACKED, acked_at=ctx.now.wall))
    return Change(record).update_commit(replace(row, state=CommitState.RECONCILED, acked_at=ctx.now.wall, reconciled_by=contents.acker))


def lake_is_confirmed(record: TableRecord | None, now: Moment) -> bool:
    """Whether the cluster may remove records from its log because the lake has them: a round succeeded lately, and none failed since.

    A round that stops at a record of a bucket has checked the lake table: its error says nothing against it.

    The cluster's record of the lake says what was tiered, and not what became of the lake table since: a user may have dropped it, or
    rolled it back. The log is then the only place that has the rows. A round without rows counts: it checks the lake table, too.

    False for a table without a record, such as one that the coordinator has not discovered since a start on an empty store.
    """
    if record is None or record.state is None or not (record.error is None or is_bucket_stopped(record.error)):
        return False
    confirmed = [moment for moment in (record.last_checked_time, record.last_tiered_time) if moment is not None]
    valid_for = max(CONFIRMED_FOR, timedelta(milliseconds=2 * record.freshness_ms))
    return bool(confirmed) and abs(now.wall - max(confirmed)) <= valid_for
