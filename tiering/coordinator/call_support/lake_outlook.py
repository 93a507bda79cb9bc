"""The effect that upkeep would have on a lake table now. The module reads manifests and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import structlog

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.lake.health.measure import MeasuredLake
from tiering.lake.maintenance import ExpiryOutlook, SnapshotExpiry, TableUpkeep, UpkeepPlan
from tiering.lake.rules.upkeep.snapshot_expiry import UNKNOWN_READS
from tiering.model.tables import TableInfo, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats

_log = structlog.get_logger(__name__)


def upkeep_plan(parts: CallParts, info: TableInfo, order: UpkeepOrder) -> UpkeepPlan | None:
    """Returns what a round with this order would rewrite; None if there is no lake table, or its format has no upkeep.

    Raises LakeUnavailable.
    """
    lake = parts.lakes.of(info.lake_format)
    view = lake.view(info.path)
    if view is None or not isinstance(lake, TableUpkeep):
        return None
    partitions = (
        {partition.partition_name: partition.partition_id for partition in parts.cluster.partitions(info)} if info.partition_keys else {}
    )
    return lake.plan_upkeep(info, view, order, partitions)


def planned_stats(parts: CallParts, info: TableInfo, order: UpkeepOrder) -> tuple[UpkeepStats, Mapping[str, int]]:
    """Returns what rounds with this order would do, as far as known, and which snapshots would stay. Raises LakeUnavailable."""
    stats, kept = UpkeepStats(), dict[str, int]()
    if order.rewrite and (plan := upkeep_plan(parts, info, order)) is not None:
        files, size = sum(task.files for task in plan.tasks), sum(task.size_bytes for task in plan.tasks)
        stats = UpkeepStats(files_before=files, bytes_read=size, bytes_left=plan.bytes_left)
    if order.manifests:
        stats = UpkeepStats(manifests_before=_manifests(parts, info))
    if order.expiry is not None and (outlook := outlook_of(parts, info.path, order.expiry)) is not None:
        stats, kept = UpkeepStats(snapshots_expired=outlook.expirable), dict(outlook.kept)
    return stats, kept


def outlook_of(parts: CallParts, path: TablePath, order: ExpiryOrder) -> ExpiryOutlook | None:
    """Returns what an expiry would remove and what stays; None if that is unknown now."""
    try:
        info = parts.cluster.table(path)
        lake = parts.lakes.of(info.lake_format)
        view = lake.view(path)
        if view is None or not isinstance(lake, SnapshotExpiry):
            return None
        read_snapshots = parts.read_snapshots(info.table_id)
        if read_snapshots is None:
            return ExpiryOutlook(0, {UNKNOWN_READS: len(view.snapshots)})
        return lake.expiry_outlook(replace(info, read_snapshots=read_snapshots), view, order)
    except errors.LakewardError as error:
        _log.debug("the snapshots of a lake table cannot be read", table=str(path), error=error.message)
        return None


def _manifests(parts: CallParts, info: TableInfo) -> int | None:
    lake = parts.lakes.of(info.lake_format)
    view = lake.view(info.path)
    return lake.measure(info, view).manifests if view is not None and isinstance(lake, MeasuredLake) else None
