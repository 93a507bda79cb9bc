"""The upkeep in a round's commit: it removes expired snapshots (`rules.upkeep.snapshot_expiry`).

The removal is part of the round's one compare-and-set, so it costs no further commit. Two rules hold:

- A reference that a user creates between our read of the table and the commit keeps its snapshot. A catalog whose requirements are checked
  in this process (SQL, hadoop, hive, glue) checks `AssertReferences`. A REST server knows only Iceberg's requirements: see `_for_server`.
- A removal never prevents a round's commit. If the commit did not land, the round's next request is without a removal, and commits to the
  table remove nothing for `PAUSE_MS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal, cast

import structlog
from pydantic import Field
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
    _apply_table_update,
    _TableMetadataUpdateContext,
)

from tiering.clock import Clock, SystemClock
from tiering.lake.base import LakeView
from tiering.lake.iceberg.reading.view import TAG, summary_of
from tiering.lake.iceberg.schema.layout import DELETE_AFTER_COMMIT, GC_ENABLED, PREVIOUS_VERSIONS, PREVIOUS_VERSIONS_MAX
from tiering.lake.iceberg_options import PREFIX
from tiering.lake.maintenance import ExpiryOutlook
from tiering.lake.marker import ROUND_ID_KEY
from tiering.lake.outside_errors import describe
from tiering.lake.rules.upkeep import consecutive_expiry
from tiering.lake.rules.upkeep.snapshot_expiry import (
    ORDERED_AT_ONCE,
    REMOVED_AT_ONCE,
    ExpiryRule,
    TableHistory,
    TableReference,
    TableSnapshot,
    expired_snapshots,
    expiry_rule,
    kept_snapshots,
)
from tiering.lake.table_options import SNAPSHOT_MAX_AGE
from tiering.lake.writing.encodings import COMPRESSION
from tiering.model.tables import SnapshotRetention, TableInfo
from tiering.model.upkeep import ExpiryOrder

_log = structlog.get_logger(__name__)

PAUSE_MS = 600_000
"""Time for which commits to a table remove nothing, after a commit with a removal did not land."""

COMPRESSION_PROPERTY = "write.parquet.compression-codec"
"""A property that every table has that Lakeward created, and its value."""

MAX_AGE, MIN_COUNT = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"


@dataclass(frozen=True)
class Upkeep:
    """Requirements and updates to add to a commit. `removed` are the snapshots that it removes."""

    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()
    removed: tuple[int, ...] = ()


class UpkeepPauses:
    """The tables whose commits remove nothing for a while. Safe to use from several threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._until: dict[str, int] = {}
        self._reported: set[str] = set()
        """Tables for which the log already reported that their catalog refuses removals."""

    def begin(self, base: LakeView, error: BaseException) -> None:
        """Starts the pause of a table after a commit with a removal failed with `error`.

        The log reports it once, until a removal lands. It does not report a commit that only lost a race.
        """
        with self._lock:
            now = self._clock.monotonic_ms()
            self._until = {uuid: until for uuid, until in self._until.items() if until > now} | {base.table_uuid: now + PAUSE_MS}
            is_reported = isinstance(error, CommitFailedException) or base.table_uuid in self._reported
            self._reported.add(base.table_uuid)
        if not is_reported:
            _log.warning(
                "a commit that also removes snapshots failed; commits remove none for a while, and then it is tried again",
                table=str(base.path),
                error=describe(error),
                pause_ms=PAUSE_MS,
            )

    def removed(self, base: LakeView) -> None:
        """Records that a commit with a removal landed."""
        with self._lock:
            self._reported.discard(base.table_uuid)

    def has(self, table_uuid: str) -> bool:
        """Whether the table is paused."""
        with self._lock:
            return self._until.get(table_uuid, 0) > self._clock.monotonic_ms()


class AssertReferences(ValidatableTableRequirement):
    """Requires that all tags and branches, with their retention, are the same as at our read. Only this process can check it."""

    type: Literal["lakeward-assert-references"] = Field(default="lakeward-assert-references")
    references: dict[str, SnapshotRef]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as pyiceberg's own
        """Raises CommitFailedException if they differ."""
        if base_metadata is None or base_metadata.refs != self.references:
            raise CommitFailedException("Requirement failed: a tag or a branch was created, moved or dropped concurrently")


class RemovedSnapshots(RemoveSnapshotsUpdate):
    """Removes snapshots, but refuses to remove a reference, and keeps the parents of the remaining snapshots, as Iceberg's Java classes do.

    pyiceberg's own update drops references to removed snapshots, and its time grows with removed times kept snapshots.
    """

    thinned_from_ms: int = Field(default=0, exclude=True)
    """Time from which on snapshots are thinned and not expired, in ms."""


@_apply_table_update.register(RemovedSnapshots)
def _remove_snapshots(update: RemovedSnapshots, base: TableMetadata, context: _TableMetadataUpdateContext) -> TableMetadata:
    removed = frozenset(update.snapshot_ids)
    snapshots = [snapshot for snapshot in base.snapshots if snapshot.snapshot_id not in removed]
    if len(base.snapshots) - len(snapshots) != len(removed):
        raise CommitFailedException("snapshots to remove no longer exist")
    if any(reference.snapshot_id in removed for reference in base.refs.values()):
        raise CommitFailedException("a tag or a branch names a snapshot to remove")
    context.add_update(update)
    kept: dict[str, Any] = {
        "snapshots": snapshots,
        "snapshot_log": _log_without(removed, base.snapshot_log, update.thinned_from_ms),
        "statistics": [file for file in base.statistics if file.snapshot_id not in removed],
        "partition_statistics": [file for file in base.partition_statistics if file.snapshot_id not in removed],
    }
    return base.model_copy(update=kept)


def _log_without(removed: Collection[int], log: Sequence[SnapshotLogEntry], thinned_from_ms: int) -> list[SnapshotLogEntry]:
    """Returns the log of heads without removed snapshots, and without all entries before an expired one.

    Otherwise a query as of a time between an older entry, such as one that a tag keeps, and the gap would read a table that is much too
    old. Iceberg's Java classes begin the log behind the last gap of any kind (`TableMetadata.Builder.updateSnapshotLog`).
    """
    expired = [number for number, entry in enumerate(log) if entry.snapshot_id in removed and entry.timestamp_ms < thinned_from_ms]
    return [entry for entry in log[expired[-1] + 1 if expired else 0 :] if entry.snapshot_id not in removed]


def upkeep_of(
    catalog: Catalog, table: TableInfo, loaded: Table, base: LakeView, pauses: UpkeepPauses, now_ms: int, order: ExpiryOrder | None = None
) -> Upkeep:
    """Returns the upkeep of the commit to `loaded` that builds on `base`; nothing while the table is paused, unless a user gave an `order`.

    Raises InvalidArgument for a wrong option of `table`.
    """
    if pauses.has(base.table_uuid) and order is None:
        return Upkeep()
    metadata, is_local = loaded.metadata, isinstance(catalog, MetastoreCatalog)
    settings, rule = _settings(metadata, table.properties), expiry_rule(table, order, now_ms)
    if rule is not None and order is None and not is_local:
        rule = _bounded(rule, metadata, table.properties, now_ms)
    limit = REMOVED_AT_ONCE if order is None else ORDERED_AT_ONCE
    removed = () if rule is None else tuple(_removable(table, metadata, base, rule, now_ms, may_thin=is_local, limit=limit))
    if rule is None or not removed:
        return Upkeep(updates=settings)
    if not is_local:
        return _for_server(catalog, loaded, settings, removed)
    same_references = cast(TableRequirement, AssertReferences(references=metadata.refs))
    removal = {"snapshot-ids": removed, "thinned_from_ms": _oldest_query_ms(metadata, rule.retention, now_ms)}
    return Upkeep((same_references,), (*settings, RemovedSnapshots.model_validate(removal)), removed)


def _bounded(rule: ExpiryRule, metadata: TableMetadata, options: Mapping[str, str], now_ms: int) -> ExpiryRule:
    """Returns the rule for a table that cannot be thinned. Only the newest MAX_SNAPSHOTS of the snapshots older than an hour stay, unless
    the user set an age. A day of commits every 10 s would make metadata files of 12 MB."""
    times = sorted((snapshot.timestamp_ms for snapshot in metadata.snapshots), reverse=True)
    if SNAPSHOT_MAX_AGE.name in options or len(times) <= consecutive_expiry.MAX_SNAPSHOTS:
        return rule
    age_ms = max(consecutive_expiry.UNBOUNDED_MS, now_ms - times[consecutive_expiry.MAX_SNAPSHOTS])
    return replace(rule, retention=replace(rule.retention, max_age_ms=min(rule.retention.max_age_ms, age_ms)))


def _removable(
    table: TableInfo, metadata: TableMetadata, base: LakeView, rule: ExpiryRule, now_ms: int, *, may_thin: bool, limit: int
) -> list[int]:
    """Returns the ids of the snapshots that the commit on `base` may remove.

    Without `may_thin` all snapshots within the maximum age stay. A REST server drops all entries of the log of heads before a gap, and then
    readers cannot query as of these times (Iceberg, `TableMetadata.Builder.updateSnapshotLog`).
    """
    if base.head is None or base.tiered is None or metadata.properties.get(GC_ENABLED, "").lower() == "false":
        return []
    history, thins = _history(table, metadata, base.head, base.tiered), rule.thins and may_thin
    return expired_snapshots(history, rule.retention, now_ms, thins=thins, literal=not rule.thins, limit=limit)


def expiry_outlook(catalog: Catalog, table: TableInfo, handle: Table, base: LakeView, order: ExpiryOrder, now_ms: int) -> ExpiryOutlook:
    """Returns the effect of an expiry now (`SnapshotExpiry.expiry_outlook`). `handle` is the lake table at `base`."""
    metadata, rule = handle.metadata, expiry_rule(table, order, now_ms)
    if rule is None or base.head is None or base.tiered is None:
        return ExpiryOutlook(0, {"no round has committed to the table": len(metadata.snapshots)} if metadata.snapshots else {})
    if metadata.properties.get(GC_ENABLED, "").lower() == "false":
        return ExpiryOutlook(0, {f"the lake table's property {GC_ENABLED} is false": len(metadata.snapshots)})
    history, thins = _history(table, metadata, base.head, base.tiered), rule.thins and isinstance(catalog, MetastoreCatalog)
    kept = kept_snapshots(history, rule.retention, now_ms, thins=thins, literal=not rule.thins)
    return ExpiryOutlook(len(metadata.snapshots) - len(kept), dict(sorted(Counter(kept.values()).items())))


def _oldest_query_ms(metadata: TableMetadata, retention: SnapshotRetention, now_ms: int) -> int:
    """Returns the oldest time as of which a query is answered: by the policy, or by the user's longer retention."""
    main = metadata.refs.get(MAIN_BRANCH)
    ages = (_number(metadata.properties.get(MAX_AGE)), None if main is None else main.max_snapshot_age_ms)
    return now_ms - max(retention.max_age_ms, *(age or 0 for age in ages))


def _for_server(catalog: Catalog, table: Table, settings: tuple[TableUpdate, ...], removed: tuple[int, ...]) -> Upkeep:
    """Returns the removal for a catalog whose server checks the requirements. Each known reference must still name the same snapshot.

    Iceberg has no requirement for references that do not exist yet, so the references are read again just before the request. A tag or a
    branch is lost if a user creates it within these milliseconds on an old snapshot that expires in this very commit.
    """
    references = catalog.load_table(table.name()).metadata.refs
    if references != table.metadata.refs:
        return Upkeep(updates=settings)
    required = [
        AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": reference.snapshot_id})
        for name, reference in references.items()
        if name not in (MAIN_BRANCH, TAG)
    ]
    return Upkeep(tuple(required), (*settings, RemoveSnapshotsUpdate.model_validate({"snapshot-ids": removed})), removed)


def _history(table: TableInfo, metadata: TableMetadata, head: int, tiered: int) -> TableHistory:
    main = metadata.refs.get(MAIN_BRANCH)
    return TableHistory(
        snapshots=[
            TableSnapshot(
                snapshot.snapshot_id,
                snapshot.parent_snapshot_id,
                snapshot.sequence_number or 0,
                snapshot.timestamp_ms,
                is_of_round=ROUND_ID_KEY in summary_of(snapshot),
            )
            for snapshot in metadata.snapshots
        ],
        head=head,
        tiered=tiered,
        references=[_reference(name, reference) for name, reference in metadata.refs.items() if name not in (MAIN_BRANCH, TAG)],
        former_heads={entry.snapshot_id for entry in metadata.snapshot_log},
        read_snapshots=table.read_snapshots,
        user_max_age_ms=_number(metadata.properties.get(MAX_AGE)),
        user_min_count=_number(metadata.properties.get(MIN_COUNT)),
        main_max_age_ms=None if main is None else main.max_snapshot_age_ms,
        main_min_count=None if main is None else main.min_snapshots_to_keep,
        kept_since=table.kept_since,
    )


def _reference(name: str, reference: SnapshotRef) -> TableReference:
    is_branch = reference.snapshot_ref_type is SnapshotRefType.BRANCH
    return TableReference(reference.snapshot_id, is_branch, reference.max_snapshot_age_ms, reference.min_snapshots_to_keep, name)


def _number(text: str | None) -> int | None:
    """Returns a whole number; None = not set. An invalid value keeps everything."""
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 1 << 62


def _settings(metadata: TableMetadata, options: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    """Returns updates that give a table of an earlier version the settings of a new table.

    Earlier versions set `write.metadata.delete-after-commit.enabled` to false themselves, refused it as an option, and never set
    `write.metadata.previous-versions-max`. In a table of another service, the property belongs to the user. The log reports the change,
    because a user of an earlier version may have set the property to the same value.
    """
    properties = metadata.properties
    is_former = properties.get(DELETE_AFTER_COMMIT) == "false" and PREVIOUS_VERSIONS not in properties
    is_own = properties.get(COMPRESSION_PROPERTY) == COMPRESSION
    if not (is_former and is_own) or any(PREFIX + name in options for name in (DELETE_AFTER_COMMIT, PREVIOUS_VERSIONS)):
        return ()
    _log.warning(
        f"a table of an earlier version names {PREVIOUS_VERSIONS_MAX} former metadata files from now on, and older ones are deleted",
        table_uuid=str(metadata.table_uuid),
        location=metadata.location,
        to_keep_them=f"set the option {PREFIX}{DELETE_AFTER_COMMIT} to false",
    )
    return (
        SetPropertiesUpdate(updates={PREVIOUS_VERSIONS: str(PREVIOUS_VERSIONS_MAX)}),
        RemovePropertiesUpdate(removals=[DELETE_AFTER_COMMIT]),
    )
