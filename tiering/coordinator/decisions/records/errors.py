"""Errors as they are displayed, the repairs for them, and the kinds of errors of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class RepairKind(StrEnum):
    """The kind of a repair for a table that failed permanently, as the latest inspection of lake and log found it (`RepairOption`)."""

    NONE = "none"
    RETIER = "retier"
    ADOPT = "adopt"
    DEDUPLICATE = "deduplicate"
    RETRY = "retry"
    RENAME_TABLE = "rename_table"
    SET_SNAPSHOT = "set_snapshot"
    RENAME_COLUMN = "rename_column"
    DROP_COLUMN = "drop_column"
    DROP_NOT_NULL = "drop_not_null"
    CHANGE_TYPE = "change_type"
    WRITE_PARQUET = "write_parquet"
    REWRITE_FILES = "rewrite_files"


@dataclass(frozen=True)
class RepairOption:
    """A repair that leaves no acknowledged row out of the lake. `RepairKind.NONE`: there is none, and the problem still exists.

    `column` is the lake's column. `value` is the new name or type of the column, the new name of the table, or a snapshot id. `choices`
    describes the repairs that leave rows out, with the number of rows, for the hint.
    """

    kind: RepairKind
    column: str | None = None
    value: str | None = None
    choices: str = ""


@dataclass(frozen=True)
class ErrorInfo:
    """An error as it is displayed, already redacted and truncated. `way_out` is None if no inspection has looked for a repair yet."""

    error_class: str
    message: str
    phase: str | None
    hint: str
    retryable: bool
    time: datetime
    ids: Mapping[str, str] = field(default_factory=dict)
    way_out: RepairOption | None = None

    @property
    def full_hint(self) -> str:
        """The hint, followed by the choices that leave rows out of the lake."""
        return self.hint if self.way_out is None else f"{self.hint} {self.way_out.choices}".strip()


@dataclass(frozen=True)
class ErrorRecord:
    """Counts failures of a table's rounds with one phase and one class: a row of `sys.tiering_errors`. Texts are from the last failure."""

    table_id: int
    database_name: str
    table_name: str
    phase: str | None
    error_class: str
    message: str
    hint: str
    retryable: bool
    count: int
    first_seen: datetime
    last_seen: datetime
    last_round_id: str
    resolved_at: datetime | None = None
    """When a later round succeeded, a user reconciled the table, the table was dropped, or its lake was disabled."""
    bucket: str | None = None
    """The bucket that stops, as in `TextOffsets`; `offset` is where. None if no bucket stops, or an older version recorded the error."""
    offset: int | None = None
    trace: str | None = None
    """The cluster's trace of the record at `offset`; None if unknown."""
    record_text: str | None = None
    """The record at `offset`, for callers with SELECT. None if unknown; older versions recorded the record in `message`."""

    @property
    def key(self) -> str:
        """Key of the error in the store."""
        return f"{self.table_id}/{self.phase or ''}/{self.error_class}"
