"""The statement of `lake_table_health.next_action`: by what lowers the score, and by what hinders upkeep. Each statement can be typed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlglot

from sys_tables.registry import default_registry
from tiering.coordinator.decisions.next_action import CatalogNames
from tiering.coordinator.decisions.records import ErrorInfo, Pause, TableRecord, UpkeepPause
from tiering.coordinator.status.lake_health import REPEATED, health_action
from tiering.lake.health.measure import FileTotals, LakeMeasure
from tiering.lake.health.table_health import HealthObservation
from tiering.model.states import TableState
from tiering.procedures.arguments import ProcedureInput

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORD = TableRecord(7, "sales", "orders", "LOG", "iceberg", 60_000, "d", TableState.SCHEDULED, NOON)
MB, NAMES = 1_000_000, CatalogNames()
HEALTHY = LakeMeasure(FileTotals(128 * MB, 4, 512 * MB, 4, 4, rows=1_000), 100, NOON, 4, 300, 5 * MB)
CROWDED = replace(HEALTHY, files=replace(HEALTHY.files, data_files=500, small_files=500, surplus_files=468, crowded_files=500))


def action(measure: LakeMeasure, record: TableRecord = RECORD, names: CatalogNames = NAMES) -> str | None:
    return health_action(record, HealthObservation.of(NOON, measure), names)


def procedure(statement: str | None) -> str:
    """The procedure of a CALL that Spark can read, with arguments that the procedure takes."""
    assert statement is not None
    assert isinstance(sqlglot.parse_one(statement, dialect="spark"), sqlglot.exp.Command)
    name, arguments = statement.removeprefix("CALL fluss.sys.").rstrip(")").split("(")
    declared = default_registry().procedure(name)
    table = declared.parameters[0].name
    ProcedureInput(declared.name, declared.parameters, [(table, arguments.strip("'"))]).read(declared.request_class)
    return name


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        (CROWDED, "rewrite_data_files"),
        (replace(HEALTHY, files=replace(HEALTHY.files, dead_rows=700)), "rewrite_data_files"),
        (replace(HEALTHY, files=replace(HEALTHY.files, delete_files=400)), "rewrite_data_files"),
        (replace(HEALTHY, metadata_bytes=2_000 * MB), "remove_orphan_files"),
        (replace(HEALTHY, metadata_bytes=2_000 * MB, snapshots=50_000), "expire_snapshots"),
        (replace(HEALTHY, manifests=100_000, snapshots=1_500, metadata_bytes=28 * MB), "rewrite_manifests"),
    ],
)
def test_an_unhealthy_table_is_helped_against_what_costs_it_the_most(measure: LakeMeasure, name: str) -> None:
    assert procedure(action(measure)) == name


def test_a_healthy_table_and_an_unknown_one_need_nothing() -> None:
    assert action(HEALTHY) is None
    assert action(replace(HEALTHY, metadata_bytes=25 * MB)) is None, "upkeep has time"
    assert health_action(RECORD, None, CatalogNames()) is None
    assert health_action(RECORD, HealthObservation(NOON), CatalogNames()) is None


def test_what_hinders_upkeep_comes_first() -> None:
    paused = replace(RECORD, upkeep=replace(RECORD.upkeep, pause=UpkeepPause("ann", "a backfill", NOON)))
    assert procedure(action(CROWDED, paused)) == "resume_upkeep"
    assert action(HEALTHY, paused) is None
    error = ErrorInfo("SchemaDrift", "text", "PLAN", "Mend it.", False, NOON)
    parked = replace(RECORD, state=TableState.FAILED, error=error)
    failing = replace(RECORD, upkeep=replace(RECORD.upkeep, failures=REPEATED))
    for record in (parked, failing, replace(RECORD, pause=Pause("ann", NOON, None, None))):
        assert procedure(action(CROWDED, record)) == "explain_upkeep"


def test_the_catalog_is_the_readers() -> None:
    assert action(CROWDED, names=CatalogNames.from_plain("stream", "")) == "CALL stream.sys.rewrite_data_files('sales.orders')"
