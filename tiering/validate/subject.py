"""The subject of a validation: one table, its lake table at one snapshot, and the contents that the marker promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tiering.cluster.base import SplitSource
from tiering.cluster.capabilities import service_mode_of
from tiering.cluster.shared_lake import with_foreign_commits
from tiering.errors import InvalidArgument, LakewardError
from tiering.lake.base import Lake, LakeView
from tiering.lake.file_lists import FileLists, FollowingLake, ReadableLake, SourceFields
from tiering.lake.foreign import SharedRecords
from tiering.lake.layouts import Layout, layout_of
from tiering.lake.marker import Marker
from tiering.lake.proof.bucket_proof import continued
from tiering.lake.proof.file_footer import Run, merged, without
from tiering.lake.rules.base_check import ExpectedLake, check_base
from tiering.model.assignments import ServiceMode
from tiering.model.tables import TIMESTAMP_COLUMN, BucketKey, BucketOffsets, TableInfo, TablePath, TableType

_MILLISECONDS = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True)
class BucketRange:
    """One bucket: the lake has its records `[start, tiered)`, and the log still has them from `log_start` on.

    `place` identifies its rows in the lake: partition name ("" without partitions) and bucket.
    """

    bucket: BucketKey
    place: tuple[str, int]
    start: int
    tiered: int
    log_start: int
    log_end: int
    empty: tuple[Run, ...] = ()
    """Offsets without rows, from the marker: all that it names in a clean table, otherwise skipped and left-out records."""
    left_out: tuple[Run, ...] = ()
    """Records that `reconcile_lake` left out, because neither log nor lake had them."""

    @property
    def rows(self) -> int:
        """Number of rows that a log table's bucket should have."""
        return self.tiered - self.start - sum(stop - start for start, stop in self.empty)

    @property
    def name(self) -> str:
        """Name in texts: `3`, or `partition/3`."""
        return f"{self.place[0]}/{self.place[1]}" if self.place[0] else str(self.place[1])

    @property
    def retained(self) -> tuple[int, int]:
        """All tiered offsets that the log has, also below `start`: a first round may have begun with a KV snapshot."""
        stop = min(self.tiered, self.log_end)
        return min(self.log_start, stop), stop

    @property
    def readable(self) -> tuple[int, int]:
        """The part of `[start, tiered)` that the log still has."""
        low, stop = self.retained
        return min(max(self.start, low), stop), stop


@dataclass(frozen=True)
class Subject:
    """One table to validate. `problem`: why nothing can be compared (the base check's error). `vanished`: buckets of dropped partitions."""

    source: SplitSource
    table: TableInfo
    view: LakeView
    marker: Marker | None
    files: FileLists
    layout: Layout = Layout.SYSTEM_COLUMNS
    bucket_ranges: tuple[BucketRange, ...] = ()
    vanished: tuple[BucketKey, ...] = ()
    unknown: tuple[BucketKey, ...] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Ids of the existing partitions, by name."""
    problem: LakewardError | None = None
    has_times_in_milliseconds: bool = False
    """Whether the lake truncates the times of records to milliseconds. A log may have microseconds."""
    fields: SourceFields | None = None
    """The table's columns with the lake's field ids; None = columns of files are found by name."""


def read_subject(source: SplitSource, lake: Lake, path: TablePath, snapshot_id: int | None, copies_in: Path | None = None) -> Subject:
    """Reads everything that the validation needs, and copies files of a store into the folder `copies_in`.

    Raises UnknownTable, InvalidArgument (another format, never tiered, no such snapshot), LakeUnavailable.
    """
    table = source.table(path)
    _check_format(table, lake)
    recorded = source.lake_snapshot(table)  # before the lake, so that the record is never newer
    view = lake.view(path)
    if view is None or view.head is None:
        raise _never_tiered(path, view)
    if not isinstance(lake, ReadableLake):
        raise InvalidArgument(f"files of {lake.format} lakes cannot be listed by this version", table_path=path)
    at = view.head if snapshot_id is None else snapshot_id
    files = lake.file_lists(view, snapshot_id, copies_in)
    logs = source.offsets(table)
    # After the lake, because the base check needs that order, and after the logs: a partition dropped in between counts as vanished.
    names = {partition.partition_id: partition.partition_name for partition in source.partitions(table)}
    copies = () if recorded is None else (recorded,)
    expected = ExpectedLake(source.cluster_id, table.table_id, None, None, copies, living=names.keys())
    if service_mode_of(source) is ServiceMode.SHARED:
        shared = SharedRecords(cluster=recorded)
        expected, view = replace(expected, shared=shared), with_foreign_commits(source, lake, table, view, shared, None)
    try:
        base = check_base(view, expected)
        marker = lake.marker_at(view, at)
        if marker is not None and snapshot_id is None:
            proofs = continued(marker.proofs, marker.buckets, base.ranges)
            marker = replace(marker, buckets=base.ranges, proofs=proofs)
    except LakewardError as error:
        if error.retryable:
            raise
        return Subject(source, table, view, None, files, problem=error)
    columns = lake.columns(view)
    fields = lake.source_fields(table, view) if isinstance(lake, FollowingLake) else None
    layout, has_milliseconds = layout_of(columns.names), _has_milliseconds(columns)
    subject = Subject(source, table, view, marker, files, layout, has_times_in_milliseconds=has_milliseconds, fields=fields)
    return subject if marker is None else _with_bucket_ranges(subject, marker, logs, names)


def _check_format(table: TableInfo, lake: Lake) -> None:
    if table.lake_format.lower() != lake.format:
        raise InvalidArgument(
            f"the lake copy of {table.path} is of the format {table.lake_format}, and this version validates {lake.format}",
            hint=f"Read it with a reader of {table.lake_format}, or validate a table whose lake format is {lake.format}.",
            table_path=table.path,
        )


def _never_tiered(path: TablePath, view: LakeView | None) -> InvalidArgument:
    return InvalidArgument(
        f"{path} was never tiered: it has no lake table{'' if view is None else ' with rows'}",
        hint="Tier it first, for instance with CALL sys.tier_table.",
        table_path=path,
    )


def _has_milliseconds(columns: pa.Schema) -> bool:
    return TIMESTAMP_COLUMN in columns.names and columns.field(TIMESTAMP_COLUMN).type == _MILLISECONDS


def _with_bucket_ranges(subject: Subject, marker: Marker, logs: Mapping[BucketKey, BucketOffsets], names: Mapping[int, str]) -> Subject:
    bucket_ranges: list[BucketRange] = []
    vanished: list[BucketKey] = []
    unknown: list[BucketKey] = []
    for bucket in sorted(marker.buckets, key=BucketKey.sort_key):
        tiered = marker.buckets[bucket]
        if bucket.partition_id is not None and bucket.partition_id not in names:
            vanished.append(bucket)
        elif bucket not in logs:
            unknown.append(bucket)
        else:
            log = logs[bucket]
            name = "" if bucket.partition_id is None else names[bucket.partition_id]
            proof = marker.proofs.get(bucket) if subject.table.table_type is TableType.LOG else None
            skipped = tuple((offset, offset + 1) for offset in marker.skipped.get(bucket, ()))
            empty = skipped if proof is None else proof.empty
            left_out = tuple(part for run in marker.left_out.get(bucket, ()) for part in without(*run, empty))
            bucket_ranges.append(
                BucketRange(
                    bucket,
                    (name, bucket.bucket_id),
                    tiered.start,
                    tiered.tiered,
                    log.log_start,
                    log.log_end,
                    merged((*empty, *left_out)),
                    tuple(marker.left_out.get(bucket, ())),
                )
            )
    partitions = {name: partition_id for partition_id, name in names.items()}
    return replace(subject, bucket_ranges=tuple(bucket_ranges), vanished=tuple(vanished), unknown=tuple(unknown), partitions=partitions)
