"""`CALL sys.tier_database`: runs `tier_table` for the tables of a database concurrently, and returns a row for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiering.access.privileges import Privilege
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.model.declare import column, parameter
from tiering.procedures.base import Mutation
from tiering.procedures.tier_table import TierTableResult


@dataclass(frozen=True)
class TierDatabaseRow:
    """The result for one table of the database. `error`: why it could not be tiered; `tiered` then has the table's state."""

    tiered: TierTableResult
    error: str | None = None


@dataclass(frozen=True)
class TierDatabaseResult:
    """One row per table, ordered by path."""

    rows: tuple[TierDatabaseRow, ...]


@dataclass(frozen=True)
class TierDatabaseRowInSql(TierTableResult):
    """The result for one table as a row of SQL."""

    error: str | None = column("Why the table could not be tiered; `state` is then the table's state. NULL = no error.")


@dataclass(frozen=True)
class TierDatabase(Mutation[TierDatabaseResult]):
    """The tables to tier. `include` and `exclude` are SQL LIKE patterns of table names."""

    procedure = "tier_database"
    comment = "Tiers the tables of a database now, and waits until the lake has caught up."
    requirement = Requirement(Privilege.TIER, PrivilegeTarget.EVERY_TABLE, audited=True)
    row_class = TierDatabaseRowInSql
    database_name: str = parameter("The database.", name="database")
    include: str | None = parameter("Only tables whose name is LIKE this pattern; NULL = all.", default=None)
    exclude: str | None = parameter("No table whose name is LIKE this pattern.", default=None)
    only_stale: bool = parameter("Whether to omit tables whose lake copy has every row.", default=True)
    wait: bool = parameter("Whether to wait until the lake has every row written before the call.", default=True, identifies=False)
    timeout_ms: int = parameter("How long to wait, in milliseconds. The rounds continue afterwards.", default=300_000, identifies=False)

    def rows(self, result: TierDatabaseResult) -> Iterable[TierDatabaseRowInSql]:
        """Returns a row per table."""
        return [TierDatabaseRowInSql(**vars(row.tiered), error=row.error) for row in result.rows]
