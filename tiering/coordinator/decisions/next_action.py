"""The column `next_action`: the one statement that helps a table. Pure.

The statement never leaves an acknowledged row out of the lake. For a lake table in a bad state, an inspection of lake and log finds the
repairs with that property (`lake_repair.repair_inspector`) and stores its result with the error. Repairs that leave rows out are in the
hint, with the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiering import errors
from tiering.coordinator.decisions.records import ErrorInfo, ErrorRecord, RepairKind, RepairOption, TableRecord
from tiering.lake.rules.hints import PARQUET_PROPERTIES, rewrite_call
from tiering.model.names import quote_identifier
from tiering.model.states import TableState
from tiering.model.tables import TablePath

_RECONCILE = (RepairKind.RETIER, RepairKind.ADOPT, RepairKind.DEDUPLICATE)
_NAME_LENGTH = 150
"""Characters of a table's name that the name of its former lake table keeps, so that the new name satisfies the name rule."""


@dataclass(frozen=True)
class CatalogNames:
    """The names that the reader uses for the catalog he reads from and for the lake's catalog, quoted as in Spark SQL."""

    catalog: str = "fluss"
    lake: str = "lake"

    @classmethod
    def from_plain(cls, catalog: str, lake: str) -> CatalogNames:
        """Creates the names from plain ones. An empty name stands for the default."""
        return cls(quote_identifier(catalog or cls.catalog), quote_identifier(lake or cls.lake))


def next_action(record: TableRecord, names: CatalogNames) -> str | None:
    """Returns the statement; None where the table only has to wait, or where no statement helps.

    Errors come first, then a pause, then dead letters: these wait without harm, while everything else continues.
    """
    if record.state is None:
        return None
    if (statement := _against_error(record, names)) is not None:
        return statement
    if record.pause is not None and record.pause.until is None and record.state is not TableState.TIERING:
        return f"CALL {names.catalog}.sys.resume_tiering('{record.path}')"
    if any(record.lake.dead_letters.values()):  # it names how many records can become rows, and why the first other one cannot
        return f"CALL {names.catalog}.sys.replay_dead_letters('{record.path}', dry_run => true)"
    return None


def next_action_against(error: ErrorRecord, record: TableRecord | None, names: CatalogNames) -> str | None:
    """Returns the statement against one kind of error of a table; None if that error is resolved, or does not block the table now."""
    if record is None or record.error is None or error.resolved_at is not None:
        return None
    if (error.phase, error.error_class) != (record.error.phase, record.error.error_class):
        return None
    return _against_error(record, names)


def failed_for_good(record: TableRecord) -> ErrorInfo | None:
    """Returns the error that prevents an automatic retry of the table."""
    return record.error if record.state is TableState.FAILED and record.retry_deadline is None else None


def needs_inspection(error: ErrorInfo) -> bool:
    """Returns whether an inspection of lake and log determines what helps."""
    kind = error_kind(error)
    return kind is not None and issubclass(kind, errors.PermanentTieringError)


def error_kind(error: ErrorInfo) -> type[errors.LakewardError] | None:
    """Returns the error class of Lakeward's own tree; None for an error from outside of it."""
    kind = getattr(errors, error.error_class, None)
    return kind if isinstance(kind, type) and issubclass(kind, errors.LakewardError) else None


def _against_error(record: TableRecord, names: CatalogNames) -> str | None:
    error = failed_for_good(record)
    if error is None:
        return None
    if error.way_out is not None:
        return repair_statement(record, error.way_out, names)
    kind = error_kind(error)
    if kind is None or needs_inspection(error) or not kind.next_action:
        return None
    return repair_statement(record, RepairOption(RepairKind.RETRY), names)


def repair_of(drift: errors.SchemaDrift) -> RepairOption | None:
    """Returns the repair that the lake names for a schema drift (`lake.maintenance.DriftCheck`); None if there is none."""
    mend = drift.ids.get("mend")
    return None if mend is None else RepairOption(RepairKind(mend), drift.ids.get("lake_column"), drift.ids.get("mended_as"))


def repair_statement(record: TableRecord, way_out: RepairOption, names: CatalogNames) -> str | None:
    """Returns the repair as a statement; None if there is no repair."""
    path, kind = record.path, way_out.kind
    if kind in _RECONCILE:
        return f"CALL {names.catalog}.sys.reconcile_lake('{path}', '{kind}')"
    if kind is RepairKind.RETRY:
        return f"CALL {names.catalog}.sys.retry_tiering('{path}')"
    if kind is RepairKind.SET_SNAPSHOT:
        return f"CALL {names.lake}.system.set_current_snapshot('{path}', {way_out.value})"
    if kind is RepairKind.REWRITE_FILES:
        return rewrite_call(path, names.lake)
    alteration = _alteration(record, way_out)
    return None if alteration is None else f"ALTER TABLE {names.lake}.{_quoted_path(path)} {alteration}"


def _alteration(record: TableRecord, way_out: RepairOption) -> str | None:
    column, value = quote_identifier(way_out.column or ""), way_out.value or ""
    match way_out.kind:
        case RepairKind.RENAME_TABLE:
            # Without a database, the table stays in its database (Spark's RenameTableExec).
            return f"RENAME TO {quote_identifier(value or former_name(record))}"
        case RepairKind.RENAME_COLUMN:
            return f"RENAME COLUMN {column} TO {quote_identifier(value)}"
        case RepairKind.DROP_COLUMN:
            return f"DROP COLUMN {column}"
        case RepairKind.DROP_NOT_NULL:
            return f"ALTER COLUMN {column} DROP NOT NULL"
        case RepairKind.CHANGE_TYPE:
            return f"ALTER COLUMN {column} TYPE {value}"
        case RepairKind.WRITE_PARQUET:
            properties = ", ".join(f"'{name}' = 'parquet'" for name in PARQUET_PROPERTIES)
            return f"SET TBLPROPERTIES ({properties})"
    return None


def former_name(record: TableRecord, number: int = 1) -> str:
    """Returns a name under which a lake table makes room for another: the `number`th one of its epoch.

    Table ids are never reused, but epochs restart with a recreated source table. A restored store can repeat an epoch.
    """
    suffix = "" if number == 1 else f"_{number}"
    return f"{record.table_name[:_NAME_LENGTH]}_former_{record.table_id}_{record.tiering_epoch}{suffix}"


def _quoted_path(path: TablePath) -> str:
    return f"{quote_identifier(path.database_name)}.{quote_identifier(path.table_name)}"
