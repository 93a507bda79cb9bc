"""The upkeep that a lake table needs because of its health, without a request of a caller. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from tiering.coordinator.decisions.records import TableRecord, UpkeepOutcome, UpkeepRecord
from tiering.coordinator.decisions.upkeep.rounds import UpkeepWork
from tiering.counts import counted
from tiering.lake.health.measure import LakeMeasure
from tiering.lake.health.score import MANIFEST_BOUND
from tiering.lake.health.table_health import HealthObservation
from tiering.model.tables import TableInfo
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder

IDLE_FOR = timedelta(hours=1)
"""A table without a commit for this long gets an upkeep round to expire snapshots. Otherwise they expire with the commits of its rounds."""


LEAST_EXPIRED = 10
"""Expired snapshots, beyond those that stay, that justify an upkeep round. The round's commit adds a snapshot itself."""

MANIFEST_GROWTH = 2
"""All manifests are merged again once there are this many times as many as after the latest merge. A merge cannot always reduce them."""

MANY_SNAPSHOTS = 1_000
"""From this number on, one commit may not expire all snapshots, so the next one follows after IDLE_FOR."""


def needed_work(record: TableRecord, info: TableInfo, observation: HealthObservation | None, now: datetime) -> UpkeepWork | None:
    """Returns the work of an upkeep round that the table needs now; None if it needs none, or its health is unknown.

    An observation from before the latest upkeep round is outdated. Then only what that round left is known.
    """
    upkeep = record.upkeep
    if info.auto_compaction and upkeep.bytes_left and upkeep.last_outcome is not UpkeepOutcome.EMPTY:
        return UpkeepWork(UpkeepOrder(), f"the latest upkeep left {_size(upkeep.bytes_left)} to be rewritten")
    if observation is None or observation.measure is None:
        return None
    if upkeep.commit_time is not None and observation.observed_time <= upkeep.commit_time:
        return None
    if info.auto_compaction and (work := _rewrite(upkeep, observation, observation.measure)) is not None:
        return work
    return _expiry(record, info, observation.measure, now)


def _rewrite(upkeep: UpkeepRecord, observation: HealthObservation, measure: LakeMeasure) -> UpkeepWork | None:
    many_manifests = measure.manifests > max(MANIFEST_BOUND, MANIFEST_GROWTH * (upkeep.manifests_left or 0))
    reason = "" if observation.health is None or observation.health.reason is None else f": {observation.health.reason}"
    if measure.files.rewrite_bytes:
        work = f"{_size(measure.files.rewrite_bytes)} of data files are to be rewritten{reason}"
        return UpkeepWork(UpkeepOrder(manifests=many_manifests), work)
    if many_manifests:
        return UpkeepWork(UpkeepOrder(rewrite=False, manifests=True), f"{counted(measure.manifests, 'manifest')} are to be merged")
    return None


def _expiry(record: TableRecord, info: TableInfo, measure: LakeMeasure, now: datetime) -> UpkeepWork | None:
    """Returns an expiry for a table that gets no commits; None if none is needed."""
    retention, oldest, latest = info.snapshot_retention, measure.oldest_snapshot_time, record.last_tiered_time
    if retention is None or oldest is None or latest is None or now - latest < IDLE_FOR:
        return None
    if measure.snapshots < retention.min_count + LEAST_EXPIRED:
        return None
    idle_time = IDLE_FOR if measure.snapshots >= MANY_SNAPSHOTS else timedelta(milliseconds=retention.max_age_ms)
    if record.upkeep.commit_time is not None and now - record.upkeep.commit_time < idle_time:
        return None  # tags, branches and a user's retention keep old snapshots permanently, and each attempt is a commit
    if now - oldest < timedelta(milliseconds=retention.max_age_ms) + IDLE_FOR:
        return None
    return UpkeepWork(
        UpkeepOrder(rewrite=False, expiry=ExpiryOrder()), "its oldest snapshots are older than table.datalake.snapshot.max-age"
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:,.1f} MB"
