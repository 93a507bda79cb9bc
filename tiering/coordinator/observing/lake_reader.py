"""Reads lake tables for the coordinator, with the same base check as a round (DESIGN 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiering.cluster.base import SplitSource
from tiering.cluster.capabilities import RewritableLogs, service_mode_of
from tiering.cluster.log_state import traces_at
from tiering.cluster.shared_lake import recorded_by_cluster, with_foreign_commits
from tiering.cluster.skipping import still_skipped
from tiering.coordinator.decisions.records import TableRecord, from_text
from tiering.coordinator.observing.lake_probes import Side, SideReporter, ignore_side
from tiering.errors import LogRewritten
from tiering.lake.base import Lake, LakeView
from tiering.lake.foreign import SharedRecords
from tiering.lake.marker import Marker
from tiering.lake.rules.base_check import Base, ExpectedLake, check_base, needs_living
from tiering.model.assignments import ServiceMode
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo
from tiering.planning.check_log import check_same_log, kept_ends, rewritten_ends
from tiering.union_read.plan import LakeOpener, base_without_coordinator, check_columns


class Lakes:
    """Lake tables as they are now. All methods do I/O: never call them under the lock of `TableRecords`."""

    def __init__(self, cluster: SplitSource, open_lake: LakeOpener) -> None:
        self._cluster = cluster
        self._open = open_lake

    def of(self, lake_format: str) -> Lake:
        """Returns the lake of a format. Raises the opener's errors."""
        return self._open(lake_format)

    def expected(self, record: TableRecord, info: TableInfo) -> ExpectedLake:
        """Returns what the coordinator and the cluster have recorded about a lake table. Raises ClusterUnavailable."""
        lake = record.lake
        recorded, is_readable = recorded_by_cluster(self._cluster, info)
        copies = (lake.recorded, recorded)
        shared = None
        if service_mode_of(self._cluster) is ServiceMode.SHARED:
            shared = SharedRecords(lake.recorded, lake.marker_round_id, frozenset(from_text(lake.moved_back)), recorded, is_readable)
        return ExpectedLake(
            cluster_id=self._cluster.cluster_id,
            table_id=record.table_id,
            lake_table_uuid=lake.table_uuid,
            passed_head=lake.passed_head,
            recorded=tuple(copy for copy in copies if copy is not None),
            path=record.path,
            shared=shared,
            skipped=lake.skipped_records,
            dead_letters=lake.dead_letter_offsets,
            superseded={BucketKey.parse(bucket): changes for bucket, changes in lake.superseded.items()},
        )

    def is_recorded_by_cluster(self, info: TableInfo) -> bool:
        """Returns whether the cluster has a record of the lake table, or one that cannot be read. Raises ClusterUnavailable."""
        recorded, is_readable = recorded_by_cluster(self._cluster, info)
        return recorded is not None or not is_readable

    def with_still_skipped(self, expected: ExpectedLake, info: TableInfo) -> ExpectedLake:
        """Returns `expected` without skipped records that the log no longer has. Raises ClusterUnavailable, UnknownTable."""
        return replace(expected, skipped=still_skipped(self._cluster, info, expected.skipped))

    def walked(self, expected: ExpectedLake, info: TableInfo, view: LakeView | None) -> LakeView | None:
        """Returns `view` with the commits of other tiering services. `view` was read after `expected`.

        Raises LakeUnavailable, ClusterUnavailable, SchemaDrift.
        """
        if view is None or expected.shared is None:
            return view
        return with_foreign_commits(
            self._cluster, self.of(info.lake_format), info, view, expected.shared, expected.passed_head, expected.skipped
        )

    def with_living(self, expected: ExpectedLake, info: TableInfo, view: LakeView | None) -> ExpectedLake:
        """Returns `expected` with the source's partitions if the base check of `view` needs them. Raises ClusterUnavailable."""
        if not needs_living(view, expected.recorded):
            return expected
        return replace(expected, living=frozenset(partition.partition_id for partition in self._cluster.partitions(info)))

    def base(self, record: TableRecord, info: TableInfo, report_side: SideReporter = ignore_side) -> Base:
        """Reads the lake table and checks it against the records of the coordinator and the cluster.

        Raises the permanent errors of the base check, LakeUnavailable, ClusterUnavailable.
        """
        report_side(Side.CLUSTER)
        expected = self.expected(record, info)
        report_side(Side.LAKE)
        view = self.of(record.lake_format).view(record.path)
        if expected.shared is not None:
            report_side(Side.EITHER)  # reading another service's commits also reads the log
            view = self.walked(expected, info, view)
        report_side(Side.CLUSTER)
        return check_base(view, self.with_living(expected, info, view))

    def base_for_reading(self, record: TableRecord | None, info: TableInfo) -> Base:
        """Reads and checks the lake table for a reader of its rows, who also needs its columns and its log to be those of the source.

        `record` None: the coordinator has none of the table. Raises the errors of `base`, SchemaDrift, LogRewritten.
        """
        if record is None:
            return base_without_coordinator(self._cluster, self._open)(info)
        base = self.base(record, info)
        check_columns(self.of(info.lake_format), info, base.view)
        self.check_log(info, base)
        return base

    def check_log(self, info: TableInfo, base: Base, log: Mapping[BucketKey, BucketOffsets] | None = None) -> None:
        """Checks that the log is still the one from which the lake table was tiered, as far as the marker has traces.

        `log` has the log's offsets, read after `base`; None to read them if there are traces.
        Raises LogRewritten; UnknownTable, ClusterUnavailable.
        """
        marker, cluster = base.marker, self._cluster
        if marker is None or not marker.traces or not isinstance(cluster, RewritableLogs):
            return
        ends = kept_ends(base.ranges, cluster.offsets(info) if log is None else log, marker.traces)
        check_same_log(info, base.ranges, marker, traces_at(cluster, info, ends))

    def rewritten_ends(self, info: TableInfo, markers: Sequence[Marker], log: Mapping[BucketKey, BucketOffsets]) -> dict[BucketKey, int]:
        """Returns the buckets in which the last record that one of `markers` traces has changed, with the lowest offset behind such a
        record.

        Raises UnknownTable, ClusterUnavailable.
        """
        offset_sets: list[Offsets] = []
        for marker in markers:
            ends = kept_ends(marker.buckets, log, marker.traces)
            if ends and ends not in offset_sets:
                offset_sets.append(ends)
        traces, lowest = traces_at(self._cluster, info, *offset_sets), dict[BucketKey, int]()
        for marker in markers:
            for bucket, reached in rewritten_ends(marker.buckets, marker, traces).items():
                lowest[bucket] = min(reached, lowest.get(bucket, reached))
        return lowest

    def lost_by_log(self, info: TableInfo, base: Base) -> BucketKey | None:
        """Returns a bucket with records in the lake that the log does not hold: the log ends before them, or has other records there.

        None if there is no such bucket. Raises UnknownTable, ClusterUnavailable.
        """
        if isinstance(self._cluster, RewritableLogs):
            self._cluster.settle(info)
        ends = self._cluster.offsets(info)
        behind = (bucket for bucket, reached in base.ranges.items() if bucket in ends and reached.tiered > ends[bucket].log_end)
        if (bucket := next(behind, None)) is not None:
            return bucket
        try:
            self.check_log(info, base, ends)
        except LogRewritten as error:
            return BucketKey.parse(error.ids["bucket"])
        return None
