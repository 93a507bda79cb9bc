"""One look at a table's log, from which a round is planned: by the round itself, and by the coordinator when it explains one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiering.cluster.base import SplitSource
from tiering.cluster.capabilities import RewritableLogs
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TableType


@dataclass(frozen=True)
class LogLook:
    """The log's ends, the partitions and KV snapshots of one moment. `traces`: by bucket and offset, of a log that can be rewritten."""

    ends: Mapping[BucketKey, BucketOffsets]
    partitions: Sequence[Partition] = ()
    snapshots: Mapping[BucketKey, KvSnapshot] = field(default_factory=dict)
    traces: Mapping[tuple[BucketKey, int], str] = field(default_factory=dict)


def look_at_log(cluster: SplitSource, table: TableInfo, tiered: Offsets, *, settle: bool = False) -> LogLook:
    """What the cluster says now. `tiered`: where the lake's buckets go on; `settle`: leaders are looked up anew first.

    Raises ClusterUnavailable, UnknownTable.
    """
    rewritable = cluster if isinstance(cluster, RewritableLogs) else None
    if rewritable is not None and settle:
        rewritable.settle(table)
    # Snapshots first: so none of them lies beyond the end of its log.
    snapshots = {} if table.table_type is TableType.LOG else cluster.kv_snapshots(table)
    ends = cluster.offsets(table)
    partitions = cluster.partitions(table) if table.partition_keys else ()
    if rewritable is None:
        return LogLook(ends, partitions, snapshots)
    held = {bucket: at for bucket, at in tiered.items() if bucket in ends and ends[bucket].log_start < at <= ends[bucket].log_end}
    new = {bucket: log.log_end for bucket, log in ends.items() if log.log_start < log.log_end != held.get(bucket)}
    # The ends first: a log that is cut before the second look differs at `held` now, one that is cut later at `new` in the next round.
    return LogLook(ends, partitions, snapshots, traces_at(rewritable, table, new, held))


def traces_at(cluster: SplitSource, table: TableInfo, *looks: Offsets) -> Mapping[tuple[BucketKey, int], str]:
    """By bucket and offset, what the last record below it is known by, looked at one after the other. Raises ClusterUnavailable."""
    if not isinstance(cluster, RewritableLogs):
        return {}
    return {(bucket, at[bucket]): trace for at in looks for bucket, trace in cluster.record_traces(table, at).items()}
