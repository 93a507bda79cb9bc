"""Errors as they are shown, what helps against them, and the kinds of errors of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Way(StrEnum):
    """What helps a table that failed for good, as lake and log were when the coordinator last looked (`WayOut`)."""

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
class WayOut:
    """A way that leaves no acknowledged row out of the lake; NONE = there is none, and what is wrong is not mended yet.

    `column` is the lake's, `value` its new name or type, the table's new name, or a snapshot's id. `choices` tells of the ways that leave
    rows out, and how many, for the hint.
    """

    kind: Way
    column: str | None = None
    value: str | None = None
    choices: str = ""


@dataclass(frozen=True)
class ErrorInfo:
    """An error as it is shown: redacted and cut before it gets here. `way_out` None = nobody looked for one."""

    error_class: str
    message: str
    phase: str | None
    hint: str
    retryable: bool
    time: datetime
    ids: Mapping[str, str] = field(default_factory=dict)
    way_out: WayOut | None = None

    @property
    def full_hint(self) -> str:
        """The hint with the choices that leave rows out of the lake."""
        return self.hint if self.way_out is None else f"{self.hint} {self.way_out.choices}".strip()


@dataclass(frozen=True)
class ErrorRecord:
    """How often rounds of a table failed in one phase with one class: a row of `sys.tiering_errors`. Texts are of the last time."""

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
    """When a later round went well, or somebody reconciled the table, or it was dropped or its lake disabled."""
    bucket: str | None = None
    """Which bucket stands, as in `TextOffsets`, and `offset` where; None = none does, or an older version recorded the error."""
    offset: int | None = None
    trace: str | None = None
    """What the cluster knows the record at `offset` by; None = not known."""
    record_text: str | None = None
    """The record at `offset`, for callers with SELECT; None = not known, or an older version recorded the error, with it in `message`."""

    @property
    def key(self) -> str:
        """Names it in the store."""
        return f"{self.table_id}/{self.phase or ''}/{self.error_class}"
