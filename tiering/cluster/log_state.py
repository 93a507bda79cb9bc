"""Reads a table's log positions for planning a round. The round uses it, and the coordinator when it explains a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiering.cluster.base import SplitSource
from tiering.cluster.capabilities import RewritableLogs
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TableType


@dataclass(frozen=True)
class LogState:
    """The log offsets, partitions and KV snapshots of one moment. `traces`, by bucket and offset, only for a log that can be rewritten."""

    ends: Mapping[BucketKey, BucketOffsets]
    partitions: Sequence[Partition] = ()
    snapshots: Mapping[BucketKey, KvSnapshot] = field(default_factory=dict)
    traces: Mapping[tuple[BucketKey, int], str] = field(default_factory=dict)


def read_log_state(cluster: SplitSource, table: TableInfo, tiered: Offsets, *, settle: bool = False) -> LogState:
    """Returns the present state of the log. `tiered` are the offsets at which the lake's buckets continue.

    With `settle`, the cluster first looks up the leaders of the buckets again. Raises ClusterUnavailable, UnknownTable.
    """
    rewritable = cluster if isinstance(cluster, RewritableLogs) else None
    if rewritable is not None and settle:
        rewritable.settle(table)
    # KV snapshots are read before the offsets, so that no snapshot lies beyond the end of its log.
    snapshots = {} if table.table_type is TableType.LOG else cluster.kv_snapshots(table)
    ends = cluster.offsets(table)
    partitions = cluster.partitions(table) if table.partition_keys else ()
    if rewritable is None:
        return LogState(ends, partitions, snapshots)
    tiered_in_log = {bucket: at for bucket, at in tiered.items() if bucket in ends and ends[bucket].log_start < at <= ends[bucket].log_end}
    ends_to_trace = {bucket: log.log_end for bucket, log in ends.items() if log.log_start < log.log_end != tiered_in_log.get(bucket)}
    # The log's ends come first. A log that is cut between the two reads has another trace at `tiered_in_log` now. A log that is cut later
    # has another trace at `ends_to_trace` in the next round.
    return LogState(ends, partitions, snapshots, traces_at(rewritable, table, ends_to_trace, tiered_in_log))


def traces_at(cluster: SplitSource, table: TableInfo, *offset_sets: Offsets) -> Mapping[tuple[BucketKey, int], str]:
    """Returns, by bucket and offset, the trace of the last record below the offset. Reads the `offset_sets` one after the other.

    Returns nothing for a cluster without `RewritableLogs`. Raises ClusterUnavailable.
    """
    if not isinstance(cluster, RewritableLogs):
        return {}
    return {(bucket, at[bucket]): trace for at in offset_sets for bucket, trace in cluster.record_traces(table, at).items()}
