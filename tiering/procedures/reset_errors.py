"""`CALL sys.reset_errors`: resets a table's count of errors."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class ResetErrorsResult:
    """The number of errors before the call."""

    path: TablePath = column("The table, as it is spelled.", name="table")
    cleared: int = column("How many errors had been counted; error_count begins at 0 again.")


@dataclass(frozen=True)
class ResetErrors(Mutation[ResetErrorsResult]):
    """The table whose count is reset."""

    procedure = "reset_errors"
    comment = "Counts the errors of a table anew."
    requirement = OPERATE_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
