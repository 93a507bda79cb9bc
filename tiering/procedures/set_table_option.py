"""`CALL sys.set_table_option`: sets an option of an existing table, or resets it to its default."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class SetTableOptionResult:
    """The option's value before and after a call; None = its default."""

    path: TablePath = column("The table, as it is spelled.", name="table")
    name: str = column("The option.")
    previous_value: str | None = column("Its value before; NULL = the default.")
    value: str | None = column("Its value now; NULL = the default.")
    outcome: str = column("set; unchanged if it had that value; would_set for a dry run.")


@dataclass(frozen=True)
class SetTableOption(Mutation[SetTableOptionResult]):
    """The option to set. `value` None: its default."""

    procedure = "set_table_option"
    comment = "Sets an option of a table, or resets it to its default."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    name: str = parameter("The option, such as table.datalake.freshness; docs/options.md lists them.")
    value: str | None = parameter("Its value as text; NULL = reset to the default.", default=None)
