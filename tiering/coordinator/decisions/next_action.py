"""The one statement that helps a table: the column `next_action`. Pure.

It never leaves an acknowledged row out of the lake. Which ways out of a lake table's state do not is found by a look at lake and log
(`calls.lake_repair.ways_out`), which leaves its result with the error; the ways that do stand in the hint, with the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiering import errors
from tiering.coordinator.decisions.records import ErrorInfo, ErrorRecord, TableRecord, Way, WayOut
from tiering.lake.rules.hints import PARQUET_PROPERTIES, rewrite_call
from tiering.model.names import quote_identifier
from tiering.model.states import TableState
from tiering.model.tables import TablePath

_RECONCILE = (Way.RETIER, Way.ADOPT, Way.DEDUPLICATE)
_NAME_LENGTH = 150
"""Characters of a table's name that its former lake table's keeps, so that it stays within the name rule."""


@dataclass(frozen=True)
class CatalogNames:
    """How the reader calls the catalog that he reads from, and the one with the lake's tables; as Spark SQL has them, quoted."""

    catalog: str = "fluss"
    lake: str = "lake"

    @classmethod
    def spelled(cls, catalog: str, lake: str) -> CatalogNames:
        """Of the plain names; an empty one is the default."""
        return cls(quote_identifier(catalog or cls.catalog), quote_identifier(lake or cls.lake))


def next_action(record: TableRecord, names: CatalogNames) -> str | None:
    """The statement; None where waiting is right, or where no statement helps."""
    if record.state is None:
        return None
    if (statement := _against_error(record, names)) is not None:
        return statement
    if record.pause is not None and record.pause.until is None and record.state is not TableState.TIERING:
        return f"CALL {names.catalog}.sys.resume_tiering('{record.path}')"
    return None


def next_action_against(error: ErrorRecord, record: TableRecord | None, names: CatalogNames) -> str | None:
    """The same against one kind of error of a table; None for one that is over, and for one that is not what holds the table up now."""
    if record is None or record.error is None or error.resolved_at is not None:
        return None
    if (error.phase, error.error_class) != (record.error.phase, record.error.error_class):
        return None
    return _against_error(record, names)


def failed_for_good(record: TableRecord) -> ErrorInfo | None:
    """The error that keeps a table from being tried again by itself."""
    return record.error if record.state is TableState.FAILED and record.retry_deadline is None else None


def is_looked_at(error: ErrorInfo) -> bool:
    """Whether a look at lake and log tells what helps."""
    kind = error_kind(error)
    return kind is not None and issubclass(kind, errors.PermanentTieringError)


def error_kind(error: ErrorInfo) -> type[errors.LakewardError] | None:
    """The class of the tree; None for an error from outside of it."""
    kind = getattr(errors, error.error_class, None)
    return kind if isinstance(kind, type) and issubclass(kind, errors.LakewardError) else None


def _against_error(record: TableRecord, names: CatalogNames) -> str | None:
    error = failed_for_good(record)
    if error is None:
        return None
    if error.way_out is not None:
        return statement_of(record, error.way_out, names)
    kind = error_kind(error)
    if kind is None or is_looked_at(error) or not kind.next_action:
        return None
    return statement_of(record, WayOut(Way.RETRY), names)


def mend_of(drift: errors.SchemaDrift) -> WayOut | None:
    """What the lake names as the mend of a drift (`lake.maintenance.DriftCheck`); None = nothing mends it."""
    mend = drift.ids.get("mend")
    return None if mend is None else WayOut(Way(mend), drift.ids.get("lake_column"), drift.ids.get("mended_as"))


def statement_of(record: TableRecord, way_out: WayOut, names: CatalogNames) -> str | None:
    """The way out as a statement; None for no way."""
    path, kind = record.path, way_out.kind
    if kind in _RECONCILE:
        return f"CALL {names.catalog}.sys.reconcile_lake('{path}', '{kind}')"
    if kind is Way.RETRY:
        return f"CALL {names.catalog}.sys.retry_tiering('{path}')"
    if kind is Way.SET_SNAPSHOT:
        return f"CALL {names.lake}.system.set_current_snapshot('{path}', {way_out.value})"
    if kind is Way.REWRITE_FILES:
        return rewrite_call(path, names.lake)
    alteration = _alteration(record, way_out)
    return None if alteration is None else f"ALTER TABLE {names.lake}.{_quoted_path(path)} {alteration}"


def _alteration(record: TableRecord, way_out: WayOut) -> str | None:
    column, value = quote_identifier(way_out.column or ""), way_out.value or ""
    match way_out.kind:
        case Way.RENAME_TABLE:
            # Without a database it stays where it is (Spark's RenameTableExec).
            return f"RENAME TO {quote_identifier(value or former_name(record))}"
        case Way.RENAME_COLUMN:
            return f"RENAME COLUMN {column} TO {quote_identifier(value)}"
        case Way.DROP_COLUMN:
            return f"DROP COLUMN {column}"
        case Way.DROP_NOT_NULL:
            return f"ALTER COLUMN {column} DROP NOT NULL"
        case Way.CHANGE_TYPE:
            return f"ALTER COLUMN {column} TYPE {value}"
        case Way.WRITE_PARQUET:
            properties = ", ".join(f"'{name}' = 'parquet'" for name in PARQUET_PROPERTIES)
            return f"SET TBLPROPERTIES ({properties})"
    return None


def former_name(record: TableRecord, number: int = 1) -> str:
    """A name for a lake table that makes room for another: the `number`th of its epoch.

    Epochs begin anew with a source table that is made anew, and ids never come again; an epoch comes again with a store that is set back.
    """
    suffix = "" if number == 1 else f"_{number}"
    return f"{record.table_name[:_NAME_LENGTH]}_former_{record.table_id}_{record.tiering_epoch}{suffix}"


def _quoted_path(path: TablePath) -> str:
    return f"{quote_identifier(path.database_name)}.{quote_identifier(path.table_name)}"
