"""Expiry of snapshots after a round's commit (`rules.upkeep.consecutive_expiry`).

First the hint EARLIEST is written. From then on Lakeward's readers treat the older snapshots as expired, and late commits on them are
refused (`committer`). Then the snapshot files are deleted, oldest first, as Paimon's readers expect: they use EARLIEST if its snapshot
exists, otherwise the lowest id. Files below EARLIEST that an interrupted expiry left are deleted by the next expiry. Data files and
manifests are left to the sweep, which deletes by reachability.

Paimon reuses ids after a roll-back. So before every deletion, the head is checked to be the one that was committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from tiering import crash_points
from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.lake.maintenance import ExpiryOutlook
from tiering.lake.marker import ROUND_ID_KEY
from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.reading.snapshots import EARLIEST
from tiering.lake.paimon.storage.base import CONSUMER, SNAPSHOT, TableFolder
from tiering.lake.rules.upkeep.consecutive_expiry import ConsecutiveHistory, oldest_kept, reasons_to_keep
from tiering.lake.rules.upkeep.snapshot_expiry import expiry_rule
from tiering.lake.table_options import SNAPSHOT_MAX_AGE
from tiering.model.tables import TableInfo
from tiering.model.upkeep import ExpiryOrder

TIME_RETAINED, NUM_RETAINED = "snapshot.time-retained", "snapshot.num-retained.min"
"""Options of a Paimon table that can keep more snapshots than the policy, never fewer."""

CHANGELOG_RETAINED = ("changelog.time-retained", "changelog.num-retained.")
"""With such an option changelogs live longer than their snapshots. Only Paimon's own expiry preserves them (`ExpireChangelogImpl`)."""

HAS_CHANGELOG_OPTION = "changelogs outlive snapshots (changelog.time-retained or changelog.num-retained): Paimon's own expiry removes both"

KEEPS_ALL = 1 << 60
"""Value used instead of a setting or a consumer that cannot be read: keeps all snapshots."""


def expire_snapshots(base: LoadedTable, loaded: LoadedTable, table: TableInfo | None, now_ms: int, order: ExpiryOrder | None = None) -> int:
    """Removes snapshots of `loaded`, whose head is a commit on `base` that has landed; returns how many. Without `table` nothing expires.

    The newest tiering commit of `base` and all later snapshots stay. A read that was opened while the round ran has one of them, and the
    round's `read_snapshots` are older than such a read. Raises OSError.
    """
    rule = None if table is None else expiry_rule(table, order, now_ms)
    if table is None or rule is None:
        return 0
    with opened_table(loaded) as folder:
        history = _history(loaded, folder, table, order)
        if history is None:
            return 0
        if (tiered_before := base.newest_with(ROUND_ID_KEY)) is not None:
            history = replace(history, tiered=min(history.tiered, tiered_before.snapshot_id))
        kept = oldest_kept(history, rule.retention, now_ms)
        if kept == history.oldest and _has_earliest(folder, kept):
            return 0
        return _remove_below(folder, loaded, kept)


def expiry_outlook(loaded: LoadedTable, table: TableInfo, now_ms: int, order: ExpiryOrder) -> ExpiryOutlook:
    """Implements `SnapshotExpiry.expiry_outlook`. Reads the files of consumers."""
    rule = expiry_rule(table, order, now_ms)
    with opened_table(loaded) as folder:
        history = _history(loaded, folder, table, order)
    if rule is None or history is None:
        reason = HAS_CHANGELOG_OPTION if _has_long_changelogs(loaded) else "no round has committed to the table"
        return ExpiryOutlook(0, {reason: len(loaded.chain)} if loaded.chain else {})
    kept = reasons_to_keep(history, rule.retention, now_ms)
    return ExpiryOutlook(len(loaded.chain) - sum(kept.values()), kept)


def _history(loaded: LoadedTable, folder: TableFolder, table: TableInfo, order: ExpiryOrder | None) -> ConsecutiveHistory | None:
    """Returns the table's history for the expiry rules; None if nothing may expire."""
    options = loaded.schema.options
    tiered = loaded.newest_with(ROUND_ID_KEY)
    if tiered is None or _has_long_changelogs(loaded):
        return None
    has_age = order is not None and order.older_than is not None
    has_count = order is not None and order.retain_last is not None
    return ConsecutiveHistory(
        oldest=loaded.chain[0].snapshot_id,
        committed_ms=[int(snapshot.document["timeMillis"]) for snapshot in loaded.chain],
        tiered=tiered.snapshot_id,
        reserved=[*_consumers(folder), *(number for number in table.read_snapshots if number >= loaded.chain[0].snapshot_id)],
        user_max_age_ms=0 if has_age else _duration_ms(options),
        user_min_count=0 if has_count else _number(options.get(NUM_RETAINED)),
        kept_since=table.kept_since,
        is_bounded=not has_age and SNAPSHOT_MAX_AGE.name not in table.properties and TIME_RETAINED not in options,
    )


def _has_long_changelogs(loaded: LoadedTable) -> bool:
    return any(name.startswith(CHANGELOG_RETAINED) for name in loaded.schema.options)


def _consumers(folder: TableFolder) -> list[int]:
    """Returns the ids from which consumers continue to read, Lakeward's own included (Paimon's `ConsumerManager`); 0 for an unreadable
    consumer.
    """
    contents = [folder.read(f"{CONSUMER}/{name}") for name in folder.names(CONSUMER) if name.startswith("consumer-")]
    return [_next_snapshot(content) for content in contents if content is not None]


def _next_snapshot(content: bytes) -> int:
    try:
        return int(json.loads(content)["nextSnapshot"])
    except (ValueError, KeyError, TypeError):
        return 0


def _duration_ms(options: Mapping[str, str]) -> int:
    try:
        return parse_duration_ms(options.get(TIME_RETAINED, "0"))
    except InvalidArgument:
        return KEEPS_ALL


def _number(text: str | None) -> int:
    if text is None:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else KEEPS_ALL


def _has_earliest(folder: TableFolder, snapshot_id: int) -> bool:
    """Returns whether no snapshot file is older than `snapshot_id`, so that nothing is left to delete."""
    return folder.numbers(SNAPSHOT)[:1] == [snapshot_id]


def _remove_below(folder: TableFolder, loaded: LoadedTable, kept: int) -> int:
    head = loaded.head
    assert head is not None
    path = f"{SNAPSHOT}/snapshot-{head.snapshot_id}"
    removed = 0
    if folder.read(path) != head.content:
        return removed
    if kept > loaded.chain[0].snapshot_id:
        folder.replace(SNAPSHOT, EARLIEST, str(kept).encode())
        crash_points.reach(crash_points.SNAPSHOT_EXPIRING)
    stamp = folder.stamp(path)
    for number in folder.numbers(SNAPSHOT):
        if number >= kept or stamp is None or folder.stamp(path) != stamp:
            break
        folder.remove(SNAPSHOT, f"snapshot-{number}")
        removed += 1
        crash_points.reach(crash_points.SNAPSHOT_EXPIRING)
    return removed
