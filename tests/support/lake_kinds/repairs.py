"""Which statements mend each broken lake table of each kind, and what the hint says where none does."""

from __future__ import annotations

from collections.abc import Callable

from support.flink.flink_by_pypaimon import FlinkByPypaimon
from support.flink.flink_on_iceberg import FlinkOnIceberg
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN, LakeKind
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import IN_ICEBERG_ALONE, Source
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.lake.layouts import Layout
from tiering.model.tables import TableInfo

RECONCILE = "CALL fluss.sys.reconcile_lake('sales.orders', '{}')"
RETIER, ADOPT, DEDUPLICATE = RECONCILE.format("retier"), RECONCILE.format("adopt"), RECONCILE.format("deduplicate")
RENAME = "ALTER TABLE lake.sales.orders RENAME TO orders_former_"
SET_SNAPSHOT = "CALL lake.system.set_current_snapshot('sales.orders', "
RENAME_BY_HAND = "Rename or drop the lake table sales.orders in the lake's catalog, then CALL sys.reconcile_lake('sales.orders', 'retier')"
"""No statement: what the hint says of a lake whose catalog Spark does not have, or which renames no tables."""
LOG, KEYS = False, True

State = Callable[[Source], None]
Case = tuple[type[errors.LakewardError], State, bool, tuple[str, ...]]
"""The class, what brings it about, the kind of table, and how the statements begin that follow one another."""
Hinted = tuple[type[errors.LakewardError], State, bool, str]
"""A state for which no statement is named, with its error and the text of the hint."""

IN_ICEBERG: tuple[Case, ...] = (
    (errors.LakeTableReplaced, broken.lost, LOG, (RETIER,)),
    (errors.LakeTableReplaced, broken.lost, KEYS, (RETIER,)),
    (errors.LakeTableReplaced, broken.recreated_with_its_rows, LOG, (RETIER,)),
    (errors.LakeTableReplaced, broken.lost_and_the_log_cut, KEYS, (RETIER,)),
    (errors.LakeTableReplaced, broken.of_another_table, LOG, (RENAME, RETIER)),
    (errors.LakeRolledBack, broken.rolled_back, LOG, (RETIER,)),
    (errors.LakeRolledBack, broken.rolled_back_below_a_compaction, KEYS, (RETIER,)),
    (errors.LakeRolledBack, broken.rolled_back_and_the_log_cut, LOG, (SET_SNAPSHOT,)),
    (errors.LakeRolledBack, broken.rolled_back_and_the_log_cut, KEYS, (SET_SNAPSHOT,)),
    (errors.MarkerLost, broken.tag_removed, LOG, (RETIER,)),
    (errors.MarkerLost, broken.tag_removed_from_an_emptied_table, KEYS, (RETIER,)),
    (errors.RecordAheadOfLake, broken.restored_from_a_backup, LOG, (RETIER,)),
    (errors.RecordAheadOfLake, broken.tag_moved_back, KEYS, (RETIER,)),
    (errors.MarkerCorrupt, broken.tag_on_a_snapshot_without_marker, LOG, (RETIER,)),
    (errors.MarkerCorrupt, broken.marker_unreadable, LOG, (RENAME, RETIER)),
    (errors.MarkerLost, broken.markers_expired, LOG, (RETIER,)),
    (errors.MarkerLost, broken.markers_expired_and_the_log_cut, LOG, (RETIER,)),
    (errors.HistoryExpired, broken.history_expired, LOG, (RETIER,)),
    (errors.HistoryExpired, broken.history_expired, KEYS, (RETIER,)),
    (errors.HistoryExpired, broken.history_expired_and_the_log_cut, LOG, (RETIER,)),
    (errors.HistoryExpired, broken.history_expired_and_the_log_cut, KEYS, (SET_SNAPSHOT,)),
    (errors.LakeRolledBack, broken.created_or_replaced, KEYS, (RETIER,)),
    (errors.LakeRolledBack, broken.created_or_replaced_and_the_log_cut, LOG, (SET_SNAPSHOT,)),
    (errors.HistoryExpired, broken.created_or_replaced_as_select_and_the_log_cut, KEYS, (SET_SNAPSHOT,)),
    (errors.LakeRolledBack, broken.set_back_to_a_compaction_and_the_log_cut, LOG, (RETIER,)),
    (errors.TableMismatch, broken.source_made_anew, LOG, (RENAME,)),
    (errors.TableMismatch, broken.source_made_anew, KEYS, (RENAME,)),
    (errors.ForeignTiering, broken.foreign_tiering, LOG, (ADOPT,)),
    (errors.ForeignTiering, broken.foreign_tiering, KEYS, (RETIER,)),
    (errors.ForeignTiering, broken.foreign_tiering_that_cannot_be_read, LOG, (RENAME, RETIER)),
    (errors.LogTruncated, broken.log_cut_beyond_the_lake, KEYS, (RETIER,)),
    (errors.LogRewritten, broken.cluster_restored_and_outgrown, LOG, (RENAME, RETIER)),
    (errors.LogRewritten, broken.cluster_restored_and_outgrown, KEYS, (RENAME, RETIER)),
)

_NOTHING: tuple[Hinted, ...] = (
    (errors.LakeTableReplaced, broken.lost_and_the_log_cut, LOG, "'retier') leaves 36 records out of the lake."),
    (errors.LogTruncated, broken.log_cut_beyond_the_lake, LOG, "'accept') leaves 12 records out of the lake."),
    (errors.LogBehindLake, broken.cluster_restored_from_a_copy, LOG, "restore its newest state"),
    (errors.LogBehindLake, broken.cluster_restored_from_a_copy, KEYS, "restore its newest state"),
    (errors.LakeTableReplaced, broken.of_another_cluster, LOG, "Put the former lake table back in its place"),
)

_WITH_FILES_OF_OTHERS: frozenset[State] = frozenset({broken.recreated_with_its_rows, broken.foreign_tiering})
"""States of a clean log table in which no footer has the offsets of another program's rows, and no marker proves them, so all rows are
tiered again."""


_IN_PAIMON: dict[State, type[errors.LakewardError]] = {
    broken.rolled_back: errors.RecordAheadOfLake,
    broken.rolled_back_below_a_compaction: errors.RecordAheadOfLake,
    broken.rolled_back_and_the_log_cut: errors.RecordAheadOfLake,
    broken.history_expired: errors.MarkerLost,
    broken.history_expired_and_the_log_cut: errors.MarkerLost,
    broken.set_back_to_a_compaction_and_the_log_cut: errors.RecordAheadOfLake,
}
"""States with other errors in Paimon: only the records show a roll-back, and a consumer instead of a tag keeps a snapshot from expiry."""
_NOTHING_IN_PAIMON: tuple[Hinted, ...] = (
    (errors.RecordAheadOfLake, broken.rolled_back_and_the_log_cut, LOG, "'accept') leaves 24 records out of the lake."),
)


def cases_of(kind: LakeKind) -> tuple[Case, ...]:
    """Returns the cases in which a statement helps."""
    cases = [_without_offsets(case) for case in IN_ICEBERG] if kind.layout is Layout.CLEAN else list(IN_ICEBERG)
    if kind.format != "paimon":
        return tuple(cases)
    without_help = {(state, keys) for _, state, keys, _ in hinted_of(kind)}
    return tuple(_in_paimon(case) for case in cases if case[1] not in IN_ICEBERG_ALONE and case[1:3] not in without_help)


def hinted_of(kind: LakeKind) -> tuple[Hinted, ...]:
    """Returns the cases in which no statement is named."""
    return _NOTHING if kind.format != "paimon" else (*_NOTHING, *_NOTHING_IN_PAIMON)


def _without_offsets(case: Case) -> Case:
    kind, state, keys, _ = case
    return (kind, state, keys, (RENAME, RETIER)) if state in _WITH_FILES_OF_OTHERS and keys is LOG else case


def _in_paimon(case: Case) -> Case:
    kind, state, keys, statements = case
    if SET_SNAPSHOT in statements:
        statements = (RENAME, RETIER)  # no snapshot is left to go back to
    return _IN_PAIMON.get(state, kind), state, keys, tuple(RENAME_BY_HAND if step is RENAME else step for step in statements)


def flink_doubled(world: LakeWorld, table: TableInfo) -> None:
    """One that planned before our round commits after it."""
    world.append(table, 50, 50)
    late = flink_of(world, table).plan()
    world.tier(table)
    late.append().tell()


def flink_left_a_gap(world: LakeWorld, table: TableInfo) -> None:
    ours = world.view(table).head
    assert ours is not None
    world.append(table, 50, 50)
    flink_of(world, table).plan().append().tell()
    world.append(table, 100, 20)
    late = flink_of(world, table).plan()
    world.by_hand.roll_back(table.path, ours)
    late.append().tell()


def flink_of(world: LakeWorld, table: TableInfo) -> FlinkOnIceberg:
    return (FlinkOnIceberg if world.lake_format == "iceberg" else FlinkByPypaimon)(world, table)


FLINK_CASES: tuple[tuple[LakeKind, type[errors.LakewardError], Callable[[LakeWorld, TableInfo], None], str], ...] = (
    (ICEBERG, errors.ForeignTieringOverlap, flink_doubled, DEDUPLICATE),
    (ICEBERG, errors.ForeignTieringGap, flink_left_a_gap, RETIER),
    (ICEBERG_CLEAN, errors.ForeignTieringUnproved, flink_doubled, SET_SNAPSHOT),
    (PAIMON, errors.ForeignTieringOverlap, flink_doubled, DEDUPLICATE),
    (PAIMON, errors.ForeignTieringGap, flink_left_a_gap, RETIER),
)

NEVER_FROM: dict[LakeKind, frozenset[type[errors.LakewardError]]] = {
    ICEBERG: frozenset({errors.ForeignTieringUnproved}),
    ICEBERG_CLEAN: frozenset({errors.ForeignTieringOverlap, errors.ForeignTieringGap}),
    PAIMON: frozenset({errors.ForeignTieringUnproved, errors.LakeRolledBack, errors.HistoryExpired}),
    PAIMON_CLEAN: frozenset(
        {
            errors.ForeignTieringOverlap,
            errors.ForeignTieringGap,
            errors.ForeignTieringUnproved,
            errors.LakeRolledBack,
            errors.HistoryExpired,
        }
    ),
}
"""Errors that a kind never has: offsets in rows prove some states that clean rows leave open. A Paimon table has no trace of a roll-back,
and its history is as long as its snapshots."""
