"""The statement of `next_action`, by state, error and pause; which ways leave nothing out is found by looks, and tested with them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tiering import errors
from tiering.coordinator.decisions.next_action import CatalogNames, next_action, next_action_against
from tiering.coordinator.decisions.records import ErrorInfo, ErrorRecord, Pause, RepairKind, RepairOption, TableRecord
from tiering.model.states import TableState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = CatalogNames()
RETIER = RepairOption(RepairKind.RETIER, choices="That leaves 12 records out.")


def failed(error_class: str, way_out: RepairOption | None = None, retryable: bool = False) -> TableRecord:
    """Returns a table whose round ended with that error."""
    error = ErrorInfo(error_class, "text", "PLAN", "Mend it.", retryable, NOON, way_out=way_out)
    record = TableRecord(7, "sales", "orders", "LOG", "iceberg", 60_000, "d", TableState.FAILED, NOON, tiering_epoch=3, error=error)
    return replace(record, retry_deadline=NOON if retryable else None)


def kind_of_error(**changes: object) -> ErrorRecord:
    row = ErrorRecord(7, "sales", "orders", "PLAN", "MarkerLost", "text", "Mend it.", False, 1, NOON, NOON, "r1")
    return replace(row, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("way_out", "statement"),
    [
        (RETIER, "CALL fluss.sys.reconcile_lake('sales.orders', 'retier')"),
        (RepairOption(RepairKind.ADOPT), "CALL fluss.sys.reconcile_lake('sales.orders', 'adopt')"),
        (RepairOption(RepairKind.DEDUPLICATE), "CALL fluss.sys.reconcile_lake('sales.orders', 'deduplicate')"),
        (RepairOption(RepairKind.RETRY), "CALL fluss.sys.retry_tiering('sales.orders')"),
        (RepairOption(RepairKind.RENAME_TABLE), "ALTER TABLE lake.sales.orders RENAME TO orders_former_7_3"),
        (RepairOption(RepairKind.SET_SNAPSHOT, value="17"), "CALL lake.system.set_current_snapshot('sales.orders', 17)"),
        (RepairOption(RepairKind.RENAME_COLUMN, "a b", "te`xt"), "ALTER TABLE lake.sales.orders RENAME COLUMN `a b` TO `te``xt`"),
        (RepairOption(RepairKind.DROP_COLUMN, "a.b"), "ALTER TABLE lake.sales.orders DROP COLUMN `a.b`"),
        (RepairOption(RepairKind.DROP_NOT_NULL, "text"), "ALTER TABLE lake.sales.orders ALTER COLUMN text DROP NOT NULL"),
        (RepairOption(RepairKind.CHANGE_TYPE, "id", "bigint"), "ALTER TABLE lake.sales.orders ALTER COLUMN id TYPE bigint"),
        (
            RepairOption(RepairKind.WRITE_PARQUET),
            "ALTER TABLE lake.sales.orders SET TBLPROPERTIES "
            "('write.format.default' = 'parquet', 'write.delete.format.default' = 'parquet')",
        ),
        (
            RepairOption(RepairKind.REWRITE_FILES),
            "CALL lake.system.rewrite_data_files(table => 'sales.orders', "
            "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true', 'use-starting-sequence-number', 'false'))",
        ),
        (RepairOption(RepairKind.NONE), None),
        (None, None),
    ],
)
def test_a_table_that_failed_for_good_is_helped_as_a_look_found(way_out: RepairOption | None, statement: str | None) -> None:
    assert next_action(failed("MarkerLost", way_out), NAMES) == statement


@pytest.mark.parametrize(
    "kind", [errors.LakeUnavailable, errors.RoundFailed, errors.BucketStopped, errors.TiererLost], ids=lambda kind: kind.__name__
)
def test_what_is_tried_again_by_itself_is_waited_for(kind: type[errors.LakewardError]) -> None:
    assert next_action(failed(kind.__name__, retryable=True), NAMES) is None


def test_once_it_is_tried_again_nothing_is_to_be_done() -> None:
    record = failed("MarkerLost", RETIER)
    assert next_action(replace(record, state=TableState.PENDING), NAMES) is None
    assert next_action(replace(record, state=None), NAMES) is None


def test_an_error_from_outside_of_the_tree_names_nothing() -> None:
    assert next_action(failed("ArrowInvalid"), NAMES) is None
    assert next_action(failed("cut_message"), NAMES) is None


def test_a_pause_is_ended_unless_it_ends_by_itself_or_a_round_still_runs() -> None:
    record = replace(failed("MarkerLost"), state=TableState.SCHEDULED, error=None)
    paused = replace(record, pause=Pause("ann", None, NOON))
    assert next_action(record, NAMES) is None
    assert next_action(paused, CatalogNames.from_plain("my-stream", "")) == "CALL `my-stream`.sys.resume_tiering('sales.orders')"
    assert next_action(replace(paused, pause=Pause("ann", None, NOON, NOON, NOON)), NAMES) is None
    assert next_action(replace(paused, state=TableState.TIERING), NAMES) is None


def test_waiting_dead_letters_come_after_errors_and_pauses() -> None:
    record = replace(failed("MarkerLost"), state=TableState.SCHEDULED, error=None)
    lake = replace(record.lake, skipped={"0": (3, 4)}, dead_letters={"0": (4,)})
    waiting = replace(record, lake=lake)
    statement = "CALL fluss.sys.replay_dead_letters('sales.orders', dry_run => true)"
    for state in (TableState.SCHEDULED, TableState.PENDING, TableState.TIERING):
        assert next_action(replace(waiting, state=state), NAMES) == statement
    assert next_action(replace(waiting, lake=replace(lake, dead_letters={})), NAMES) is None, "discarded and skipped records do not wait"
    assert next_action(replace(failed("MarkerLost", RETIER), lake=lake), NAMES) == next_action(failed("MarkerLost", RETIER), NAMES)
    assert next_action(replace(waiting, pause=Pause("ann", None, NOON)), NAMES) == "CALL fluss.sys.resume_tiering('sales.orders')"


def test_kinds_of_errors_that_are_over_or_not_what_holds_it_up_name_nothing() -> None:
    record = failed("MarkerLost", RETIER)
    assert next_action_against(kind_of_error(), record, NAMES) == next_action(record, NAMES)
    assert next_action_against(kind_of_error(resolved_at=NOON), record, NAMES) is None
    assert next_action_against(kind_of_error(error_class="LakeRolledBack"), record, NAMES) is None
    assert next_action_against(kind_of_error(phase="ACK"), record, NAMES) is None
    assert next_action_against(kind_of_error(), None, NAMES) is None


def test_choices_that_leave_rows_out_stand_in_the_hint() -> None:
    error = failed("MarkerLost", RETIER).error
    assert error is not None
    assert error.full_hint == "Mend it. That leaves 12 records out."
