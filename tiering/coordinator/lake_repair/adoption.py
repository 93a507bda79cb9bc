"""Whether `CALL sys.adopt_table` may take over rows that an earlier pipeline wrote, and where tiering continues. Pure.

The rows of a clean lake table carry no offsets, and the pipeline left no marker. The caller states per bucket up to which offset the lake
has the rows. The rows must be those of the log below these offsets: number and checksum are compared per bucket where partition values
name the bucket, and otherwise per partition, or for the whole table. They cannot be compared where the log was cut.

All functions raise CannotReconcile, or InvalidArgument for stated offsets that no table of these buckets can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tiering.counts import counted
from tiering.errors import CannotReconcile, InvalidArgument
from tiering.lake.base import LakeView
from tiering.lake.dead_letters.table import is_dead_letter_path
from tiering.lake.foreign import CleanRows, LogSums
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import TieredRange
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.change_sums import ChangeSums, RowSum
from tiering.lake.rules.hints import reconcile_call
from tiering.lake.rules.history import is_foreign_tiering
from tiering.lake.rules.reconcile import Log, Ranges
from tiering.model.tables import BucketKey, Offsets, TablePath


@dataclass
class Adoption:
    """Where tiering continues. `rows`: live rows of the lake table. `unproved`: the part of them that could not be compared with the log.

    `proofs` are those of buckets whose rows are all in the log. They have no chain yet.
    """

    ranges: Ranges
    proofs: dict[BucketKey, BucketProof] = field(default_factory=dict)
    rows: int = 0
    unproved: int = 0


def check_untiered(survey: LakeSurvey, path: TablePath) -> LakeView:
    """Returns the view of a lake table to which no tiering service wrote. `path` is the source table."""
    view = survey.view
    foreign = next((snapshot for snapshot in view.snapshots.values() if is_foreign_tiering(snapshot)), None)
    if foreign is not None:
        raise CannotReconcile(
            f"another tiering service wrote snapshot {foreign.snapshot_id} of the lake table {view.path}",
            hint=f"{reconcile_call(path, 'adopt')} takes over what Fluss's own tiering wrote.",
            table_path=view.path,
        )
    rounds = [snapshot for snapshot in view.snapshots.values() if snapshot.round_id is not None]
    if rounds and is_dead_letter_path(view.path):
        raise CannotReconcile(
            f"the lake table {view.path} has the dead letters of a table, which are records with other columns",
            hint="CALL sys.replay_dead_letters makes rows of them in the lake table of their own table.",
            table_path=view.path,
        )
    if survey.markers or rounds or view.tiered is not None:
        tiered = f" from table {survey.markers[0].table_id}" if survey.markers else ""
        raise CannotReconcile(
            f"a Lakeward service tiered to the lake table {view.path}{tiered}: its rows have offsets of that table's log",
            hint=f"Copy its rows with the lake's SQL into a new table (CREATE TABLE ... AS SELECT), and adopt that one. "
            f"If it was tiered from {path} itself, {reconcile_call(path, 'retier')} continues it.",
            table_path=view.path,
        )
    if view.head is None:
        raise CannotReconcile(
            f"the lake table {view.path} has no snapshot, so there are no rows to adopt",
            hint="Drop it in the lake's catalog: the first round creates the lake table.",
            table_path=view.path,
        )
    return view


def stated_offsets(texts: Mapping[str, int], log: Log) -> dict[BucketKey, int]:
    """Returns the offset of every bucket. `texts` has the offsets by the names of their buckets, such as `3` or `17/3`."""
    offsets = {_bucket(text): offset for text, offset in texts.items()}
    unknown = sorted(offsets.keys() - log.keys(), key=BucketKey.sort_key)
    if unknown:
        raise InvalidArgument(f"offsets: the table has no bucket {unknown[0]}", hint=f"It has {_names(log)}.")
    missing = sorted((bucket for bucket in log.keys() - offsets.keys() if log[bucket].log_end), key=BucketKey.sort_key)
    if missing:
        raise InvalidArgument(
            f"offsets: bucket {missing[0]} is missing, and its log has records", hint="State 0 for a bucket of which the lake has no row."
        )
    return {bucket: offsets.get(bucket, 0) for bucket in log}


def _bucket(text: str) -> BucketKey:
    try:
        return BucketKey.parse(text)
    except ValueError:
        hint = "Buckets are '3', or '17/3' in the partition with the id 17."
        raise InvalidArgument(f"offsets: {text[:60]!r} is not the name of a bucket", hint=hint) from None


def offsets_at(
    timestamp: datetime, log: Log, oldest_timestamps: Callable[[Offsets], Mapping[BucketKey, datetime]], path: TablePath
) -> dict[BucketKey, int]:
    """Returns per bucket the offset of the first record that was committed at or after `timestamp`, or the end of the log.

    It is found by bisection, because commit times only grow with offsets. `oldest_timestamps` as in `LogOffsets`.
    """
    low = {bucket: bounds.log_start for bucket, bounds in log.items()}
    high = {bucket: bounds.log_end for bucket, bounds in log.items()}
    while middle := {bucket: (low[bucket] + high[bucket]) // 2 for bucket in log if low[bucket] < high[bucket]}:
        times = oldest_timestamps(middle)
        for bucket, offset in middle.items():
            if bucket not in times or times[bucket] >= timestamp:
                high[bucket] = offset
            else:
                low[bucket] = offset + 1
    for bucket, offset in low.items():
        if 0 < offset == log[bucket].log_start:
            raise CannotReconcile(
                f"bucket {bucket}: the log of {path} has no record from before {timestamp:%Y-%m-%d %H:%M:%S} UTC: it begins at {offset}, "
                "and does not show whether records before it are missing in the lake",
                hint="State offsets instead of a timestamp.",
                table_path=path,
                bucket=bucket,
            )
    return low


def check_in_log(offsets: Offsets, log: Log, path: TablePath) -> None:
    """Checks that tiering can continue at the offsets."""
    for bucket, offset in offsets.items():
        bounds = log[bucket]
        if offset > bounds.log_end:
            raise CannotReconcile(
                f"bucket {bucket}: offset {offset} is stated, but the log of {path} ends at {bounds.log_end}", bucket=bucket
            )
        if offset < 0:
            raise InvalidArgument(f"bucket {bucket}: offset {offset} is stated, and offsets begin at 0")
        if offset < bounds.log_start:
            raise CannotReconcile(
                f"bucket {bucket}: offset {offset} is stated, but the log of {path} begins at {bounds.log_start}: records {offset} to "
                f"{bounds.log_start - 1} would be in neither",
                hint="Add these rows to the lake table first, if another place has them, and state the offset after them.",
                bucket=bucket,
            )


def adoption(path: TablePath, log: Log, offsets: Offsets, live_rows: Sequence[CleanRows], log_sums: LogSums) -> Adoption:
    """Returns the adoption, after a comparison of the live rows with the log. `path` is the lake table."""
    result = Adoption({bucket: TieredRange(0, offset) for bucket, offset in offsets.items()})
    for scope in live_rows:
        _compare(path, log, {bucket: offsets[bucket] for bucket in log if scope.has(bucket)}, scope, log_sums, result)
    for bucket in log:
        if not any(scope.has(bucket) for scope in live_rows):
            empty = CleanRows(bucket.partition_id, bucket.bucket_id, ChangeSums())
            _compare(path, log, {bucket: offsets[bucket]}, empty, log_sums, result)
    return result


def _compare(path: TablePath, log: Log, ends: Offsets, scope: CleanRows, log_sums: LogSums, result: Adoption) -> None:
    in_lake, in_log = scope.sums.living, dict[BucketKey, RowSum]()
    result.rows += in_lake.rows
    for bucket, end in ends.items():
        sums = log_sums(bucket, log[bucket].log_start, end)
        if sums is None:
            raise CannotReconcile(f"the log of bucket {bucket} was cut while it was read", hint="CALL it again.", bucket=bucket)
        in_log[bucket] = sums.living
    total = sum(in_log.values(), RowSum())
    cut = sum(min(log[bucket].log_start, end) for bucket, end in ends.items())
    if cut and total.rows <= in_lake.rows <= total.rows + cut:
        result.unproved += in_lake.rows
        return
    if total != in_lake:
        more = f", and at most {counted(cut, 'record')} below its start" if cut else ""
        raise CannotReconcile(
            f"{_scope_name(scope, path)} has {_text(in_lake)}; below the stated offsets the log has {_text(total)}{more}",
            hint="State for each bucket the offset after the last record that the pipeline wrote. If it wrote rows twice, changed "
            "or left out some, repair the lake table first.",
            table_path=path,
        )
    for bucket, rows in in_log.items():
        if not cut and rows.rows == ends[bucket]:  # otherwise some offsets are without a row, and no footer names them
            result.proofs[bucket] = BucketProof(0, rows.rows, rows.checksum)


def check_proved(result: Adoption, path: TablePath, *, accept_unproved: bool) -> None:
    """Checks that all rows were compared, unless the caller accepts rows that were not."""
    if result.unproved and not accept_unproved:
        raise CannotReconcile(
            f"{counted(result.unproved, 'row')} of the lake table {path} cannot be compared with the log, which does not have all of their "
            f"records any more; {counted(result.rows - result.unproved, 'row')} are proved",
            hint="accept_unproved => true takes them over as they are.",
            table_path=path,
        )


def _text(rows: RowSum) -> str:
    return f"{counted(rows.rows, 'row')} with the checksum {rows.checksum:016x}"


def _scope_name(scope: CleanRows, path: TablePath) -> str:
    lake_table = f"the lake table {path}"
    if scope.bucket_id is not None:
        return f"bucket {BucketKey(scope.partition_id, scope.bucket_id)} of {lake_table}"
    return lake_table if scope.partition_id is None else f"the partition with the id {scope.partition_id} of {lake_table}"


def _names(log: Log) -> str:
    names = [str(bucket) for bucket in sorted(log, key=BucketKey.sort_key)]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "no bucket"
