"""The argument `condition` of `CALL sys.backfill_table`: selects rows of the source by an SQL condition on the table's columns.

sqlglot checks that the condition has only comparisons of columns with literals, so no function and no other table can be reached. DuckDB
evaluates it, a batch at a time, in a connection that reads no file. Times without a zone in literals are UTC. As in SQL, a row for which
the condition is unknown, because a value is NULL, does not match.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tiering.errors import InvalidArgument
from tiering.lake.proof.backfilled_rows import Backfill
from tiering.library_guards.duckdb_guard import duckdb_reason, lock
from tiering.model.tables import TableInfo

_ALLOWED = (
    exp.And,
    exp.Between,
    exp.Boolean,
    exp.Cast,
    exp.Column,
    exp.DataType,
    exp.DataTypeParam,
    exp.EQ,
    exp.GT,
    exp.GTE,
    exp.Identifier,
    exp.In,
    exp.Is,
    exp.LT,
    exp.LTE,
    exp.Like,
    exp.Literal,
    exp.NEQ,
    exp.Neg,
    exp.Not,
    exp.Null,
    exp.Or,
    exp.Paren,
)
"""The parts of a condition. A cast is how sqlglot reads `DATE '2024-01-31'` and `TIMESTAMP '2024-01-31 12:00:00'`."""


class RowCondition:
    """One condition on rows with the columns of `table`. `text` is its normal form in Spark SQL."""

    def __init__(self, condition: str, table: TableInfo) -> None:
        """Raises InvalidArgument that names the part that is not allowed."""
        try:
            tree = sqlglot.parse_one(condition, into=exp.Condition, dialect="spark")
        except (SqlglotError, RecursionError) as error:
            raise _refusal("it cannot be read as SQL") from error
        for node in tree.walk():
            if not isinstance(node, _ALLOWED):
                raise _refusal(f"{node.sql(dialect='spark')[:80]!r} is not allowed")
            if isinstance(node, exp.Like) and "\\" in node.expression.sql(dialect="spark"):
                raise _refusal("LIKE with a backslash has another meaning in each dialect")
            if isinstance(node, exp.Column) and (node.table or node.name not in table.schema.names):
                raise _refusal(f"{node.sql(dialect='spark')[:80]!r} is not a column of {table.path}")
        for name in tree.find_all(exp.Identifier):
            name.set("quoted", True)
        self.text: str = tree.sql(dialect="spark")
        self._sql: str = tree.sql(dialect="duckdb")

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """A connection for all batches, because opening one takes longer than a batch."""
        connection = duckdb.connect()
        connection.execute("SET threads = 1").fetchall()  # keeps the order of rows
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        lock(connection, [])
        return connection

    def matches(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Returns for each row whether the condition is true. Raises InvalidArgument for a literal that fits no value of its column."""
        self._connection.register("source_rows", pa.Table.from_batches([batch]))
        try:
            rows = self._connection.execute(f"SELECT coalesce(({self._sql})::BOOLEAN, FALSE) FROM source_rows").fetchnumpy()
        except duckdb.Error as error:
            raise _refusal(duckdb_reason(error)) from error
        finally:
            self._connection.unregister("source_rows")
        [values] = rows.values()
        mask: npt.NDArray[np.bool_] = np.asarray(values, np.bool_)
        return mask


class RowSelection:
    """The rows of one backfill: those that match its condition, and not the condition of an earlier backfill from the same source."""

    def __init__(self, table: TableInfo, condition: RowCondition | None, earlier: Sequence[Backfill]) -> None:
        self._condition = condition
        self._earlier = [(backfill, RowCondition(backfill.condition, table)) for backfill in earlier if backfill.condition is not None]

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of a batch. Raises InvalidArgument for a row that an earlier backfill copied, or may have copied."""
        if self._condition is None:
            return batch
        rows = batch.filter(pa.array(self._condition.matches(batch)))
        for backfill, condition in self._earlier:
            if rows.num_rows and condition.matches(rows).any():
                raise _refusal(
                    f"rows that match it were copied before, from snapshot {backfill.source_snapshot_id} with the condition "
                    f"{backfill.condition}"
                )
        return rows


def _refusal(why: str) -> InvalidArgument:
    return InvalidArgument(
        f"the argument 'condition' of sys.backfill_table: {why}",
        hint="It compares columns of the table with literals, by =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, IS NULL, AND, OR and NOT. "
        "Nothing was copied.",
    )
