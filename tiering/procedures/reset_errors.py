"""`CALL sys.reset_errors`: resets a table's count of errors."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class ResetErrorsResult:
    """The number of errors before the call."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    cleared: int = column("Number of errors before the call. error_count is 0 again.")


@dataclass(frozen=True)
class ResetErrors(Mutation[ResetErrorsResult]):
    """The table whose count is reset."""

    procedure = "reset_errors"
    comment = "Resets the count of a table's errors."
    requirement = OPERATE_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
