"""`CALL sys.set_table_option`: sets an option of an existing table, or resets it to its default."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class SetTableOptionResult:
    """The option's value before and after a call; None = its default."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    name: str = column("Name of the option.")
    previous_value: str | None = column("Value of the option before the call; NULL = the default.")
    value: str | None = column("Value of the option now; NULL = the default.")
    outcome: str = column("Outcome of the call: set; unchanged if the option had that value; would_set for a dry run.")


@dataclass(frozen=True)
class SetTableOption(Mutation[SetTableOptionResult]):
    """The option to set. `value` None: its default."""

    procedure = "set_table_option"
    comment = "Sets an option of a table, or resets it to its default."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    name: str = parameter("Name of the option, such as table.datalake.freshness; docs/options.md lists them.")
    value: str | None = parameter("Value of the option as text; NULL = reset to the default.", default=None)
