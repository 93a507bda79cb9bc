"""Pure decisions about what the lake holds: acks, adoptions, and how they settle the ledger of grants (DESIGN 6.7-6.8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from tiering.coordinator.decisions import backlog
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.dead_letters import new_letters, with_marked_records
from tiering.coordinator.decisions.error_kinds import is_bucket_stopped
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import (
    CommitState,
    LakeCommitRecord,
    LakeState,
    Level,
    TableRecord,
    TextOffsets,
    from_text,
    to_text,
)
from tiering.lake.marker import LaterChange, Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof, Proofs
from tiering.model.tables import BucketKey, TableType

_T = TypeVar("_T")
CONFIRMED_FOR = timedelta(hours=2)
"""Shortest time for which a successful round confirms the lake table. A healthy table has a round once per freshness."""

PROOFS_LIMIT_CHARACTERS = 64 * 1024
"""Upper bound of recorded proofs of a table, some 70 characters per bucket. Longer ones are not recorded: each change writes them again."""


@dataclass(frozen=True)
class LakeSize:
    """Totals of a whole lake table, from its newest snapshot; None if its writers kept no totals."""

    records: int | None
    size_bytes: int | None
    files: int | None
    location: str | None


@dataclass(frozen=True)
class LakeContents:
    """Marker, head and size of a lake table, as read from the lake. `acker` is the round whose ack caused the coordinator to read it.

    `snapshot_id` is the newest tiering snapshot, and `offsets` are its ends. On a Fluss that is shared with another service, the snapshot
    with the marker, `marker_snapshot_id`, may be older. `starts` is where the lake's rows begin, for buckets whose first rows the lake
    lacks. `head` is the identity of the head (`LakeSnapshot.identity`).
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
    skipped: Mapping[str, Mapping[int, str | None]] = field(default_factory=dict)
    """The records that the marker names as left out, with their traces, per bucket."""
    dead_letters: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The records in `skipped` that rounds put aside, per bucket."""
    superseded: Mapping[str, Mapping[int, LaterChange]] = field(default_factory=dict)
    """The records in `skipped` over which a later change of their key won, per bucket."""
    proofs: Proofs = field(default_factory=dict)
    """The marker's proofs of buckets whose ends equal those in `offsets`."""
    traces: Mapping[BucketKey, str] = field(default_factory=dict)
    """The cluster's traces of the last records before the marker's ends."""

    @property
    def marked(self) -> int:
        """The snapshot that has the marker."""
        return self.snapshot_id if self.marker_snapshot_id is None else self.marker_snapshot_id


def nonzero_starts(ranges: Mapping[BucketKey, TieredRange]) -> dict[str, int]:
    """Returns the starts in a marker's ranges that are not 0, in the form that records store."""
    return to_text({bucket: tiered.start for bucket, tiered in ranges.items() if tiered.start > 0})


def recorded_proofs(record: TableRecord, proofs: Proofs) -> dict[str, str]:
    """Returns the proofs of a marker as `LakeState.proofs` stores them. Only rows of log tables are compared with them later."""
    if record.table_type != TableType.LOG:
        return {}
    texts = {str(bucket): proofs[bucket].text for bucket in sorted(proofs, key=BucketKey.sort_key)}
    return texts if sum(len(bucket) + len(text) for bucket, text in texts.items()) <= PROOFS_LIMIT_CHARACTERS else {}


def recorded_traces(traces: Mapping[BucketKey, str]) -> dict[str, str]:
    """Returns the traces of a marker as `LakeState.traces` stores them."""
    return {str(bucket): traces[bucket] for bucket in sorted(traces, key=BucketKey.sort_key)}


def recorded_marker(record: TableRecord, cluster_id: str) -> Marker | None:
    """Returns the newest marker as far as it is recorded; None without proofs and traces.

    It replaces a marker that expired in the lake table. It has no base round and no skipped records.
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


def by_text(records: Mapping[BucketKey, _T]) -> dict[str, _T]:
    """Returns records of a marker, such as the skipped ones, by the texts of their buckets."""
    return {str(bucket): of_bucket for bucket, of_bucket in records.items()}


def archived_records(lake: LakeState, table_uuid: str, living: Collection[int | None]) -> int:
    """Returns `LakeState.archived_records` once the lake table is `table_uuid`, and the source's partitions are the `living` ones."""
    if lake.table_uuid != table_uuid:
        return 0
    return lake.archived_records + tiered_of_dropped(lake, living)


def tiered_of_dropped(lake: LakeState, living: Collection[int | None]) -> int:
    """Returns how many records were tiered in recorded partitions that are not among the `living` ones."""
    recorded = {bucket.partition_id for bucket in from_text(lake.offsets or {}) if bucket.partition_id is not None}
    return tiered_of(lake, recorded.difference(living))


def tiered_of(lake: LakeState, partitions: Collection[int | None]) -> int:
    """Returns how many records of these partitions were tiered, by the recorded offsets."""
    starts = from_text(lake.starts or {})
    tiered = from_text(lake.offsets or {}).items()
    return sum(offset - starts.get(bucket, 0) for bucket, offset in tiered if bucket.partition_id in partitions)


def is_behind(offsets: TextOffsets, recorded: TextOffsets | None) -> bool:
    """Returns whether `offsets` are below `recorded` in any bucket, because they are older and late. Dropped partitions do not count."""
    return any(offsets[bucket] < tiered for bucket, tiered in (recorded or {}).items() if bucket in offsets)


def record_passed_head(record: TableRecord, head: int | None) -> Change:
    """Records the head that the coordinator's own base check passed. Later checks need the lake's history only back to it."""
    if head is None or head == record.lake.passed_head:
        return Change(record, durable=False)
    return Change(record).update(lake=replace(record.lake, passed_head=head))


def record_contents(ctx: Context, record: TableRecord, contents: LakeContents, ledger: Sequence[LakeCommitRecord]) -> Change:
    """Records what the lake holds. `ledger` has this table's unresolved rows, and the rows that these build on."""
    lake = record.lake
    unresolved = _still_unresolved(lake.unresolved_epoch, contents)
    same = (lake.snapshot_id, lake.marker_round_id) == (contents.snapshot_id, contents.marker_round_id) and lake.offsets == contents.offsets
    if same and lake.moved_back == contents.moved_back and lake.unresolved_epoch == unresolved:
        return _settle(record_passed_head(record, contents.head), ctx, contents, ledger)
    updated_lake = replace(
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
        archived_records=archived_records(lake, contents.table_uuid, {bucket.partition_id for bucket in from_text(contents.offsets)}),
    )
    marked = contents.skipped, contents.dead_letters, contents.superseded
    change = Change(record).update(lake=with_marked_records(updated_lake, *marked, ctx.now.wall))
    if contents.offsets != lake.offsets:  # an upkeep round brings no rows
        change = change.update(last_tiered_time=ctx.now.wall)
    change = backlog.finish_passed(change, ctx, contents.offsets)
    is_own_round = record.running is not None and record.running.round_id == contents.marker_round_id
    if is_own_round:
        change = change.update_round(acked=True, lake_snapshot_id=contents.marked)
    name, level = ("SNAPSHOT_ACKED", Level.INFO) if is_own_round else ("SNAPSHOT_ADOPTED", Level.WARN)
    change = change.note(ctx, name, f"the lake holds round {contents.marker_round_id}", level, lake_snapshot_id=contents.snapshot_id)
    if aside := new_letters(lake, contents.dead_letters):
        text = f"{aside} records that the lake cannot hold were put aside: see sys.dead_letters"
        change = change.note(ctx, "DEAD_LETTERS", text, Level.WARN, records=aside, marker_round_id=contents.marker_round_id)
    if set(contents.moved_back) - set(lake.moved_back):
        change = change.note(ctx, "BUCKETS_REPLAYED", _replayed(contents), Level.WARN, lake_snapshot_id=contents.snapshot_id)
    return _settle(change, ctx, contents, ledger)


def _still_unresolved(epoch: int | None, contents: LakeContents) -> int | None:
    """Returns the epoch, or None once a marker of that epoch or a later one decides: the request landed, or its tag has moved."""
    decided = epoch is not None and contents.marker_epoch is not None and contents.marker_epoch >= epoch
    return None if decided else epoch


def late_commits(record: TableRecord, ledger: Sequence[LakeCommitRecord]) -> list[LakeCommitRecord] | None:
    """Returns the commits of ended rounds that may still land in the present lake table; None if the ledger lacks some of them.

    `ledger` has the table's unresolved rows. A restored state store may lack rows.
    """
    epoch = record.lake.unresolved_epoch
    rows = [row for row in ledger if not row.state.is_resolved and row.lake_table_uuid in (None, record.lake.table_uuid)]
    return rows if epoch is None or any(row.tiering_epoch == epoch for row in rows) else None


def _replayed(contents: LakeContents) -> str:
    starts = ", ".join(f"bucket {bucket} from offset {offset}" for bucket, offset in contents.moved_back.items())
    return f"another tiering service committed changes that it had read before others came: the next round replays {starts}"


def _settle(change: Change, ctx: Context, contents: LakeContents, ledger: Sequence[LakeCommitRecord]) -> Change:
    """Settles the ledger rows that the marker decides: its round is in the lake, and so are the rounds that it builds on.

    A grant of an earlier epoch outside of that chain can never land, because its base is no longer the newest tiering commit.
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
            # A commit for another lake table may be in that table, wherever that table is now.
            elsewhere = row.lake_table_uuid is not None and row.lake_table_uuid != newest.lake_table_uuid
            state = CommitState.UNKNOWN if elsewhere else CommitState.ABORTED
            settled = row if row.state is state else replace(row, state=state, reconciled_by=None if elsewhere else contents.acker)
        if settled is not row:
            change = replace(change.update_commit(settled), durable=True)
    return change


def chain_of(round_id: str, rows: Mapping[str, LakeCommitRecord]) -> frozenset[str]:
    """Returns the round and the rounds that it builds on, as far as the ledger goes."""
    chain: set[str] = set()
    current_id: str | None = round_id
    while current_id is not None and current_id not in chain:
        chain.add(current_id)
        row = rows.get(current_id)
        current_id = row.base_round_id if row else None
    return frozenset(chain)


def record_cluster_ack(ctx: Context, record: TableRecord, contents: LakeContents, row: LakeCommitRecord | None) -> Change:
    """Settles the ledger row of the marker's round after the cluster recorded the snapshot, too.

    The row becomes ACKED if the round itself acked, otherwise RECONCILED.
    """
    if row is None or row.state.is_resolved:
        return replace(Change(record), durable=False)
    if contents.acker == contents.marker_round_id:
        return Change(record).update_commit(replace(row, state=CommitState.ACKED, acked_at=ctx.now.wall))
    return Change(record).update_commit(replace(row, state=CommitState.RECONCILED, acked_at=ctx.now.wall, reconciled_by=contents.acker))


def lake_is_confirmed(record: TableRecord | None, now: Moment) -> bool:
    """Returns whether the cluster may remove records from its log because the lake has them.

    That needs a round that succeeded recently, and no failure since. A round that stops at a record of one bucket has checked the lake
    table, so its error does not count. An EMPTY round has checked it, too.

    The cluster's own record of the lake is not enough: a user may have dropped or rolled back the lake table since. Then only the log has
    the rows. False for a table without a record, for example before its discovery by a coordinator with an empty store.
    """
    if record is None or record.state is None or not (record.error is None or is_bucket_stopped(record.error)):
        return False
    confirmed = [moment for moment in (record.last_checked_time, record.last_tiered_time) if moment is not None]
    valid_for = max(CONFIRMED_FOR, timedelta(milliseconds=2 * record.freshness_ms))
    return bool(confirmed) and abs(now.wall - max(confirmed)) <= valid_for
