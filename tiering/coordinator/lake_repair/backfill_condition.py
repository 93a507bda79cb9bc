"""The argument `condition` of `CALL sys.backfill_table`: selects rows of the source by an SQL condition on the table's columns.

sqlglot checks that the condition has only comparisons of columns with literals, so no function and no other table can be reached. DuckDB
evaluates it, a batch at a time, in a connection that reads no file. Times without a zone in literals are UTC. As in SQL, a row for which
the condition is unknown, because a value is NULL, does not match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tiering.errors import InvalidArgument
from tiering.lake.proof.backfilled_rows import Backfill, ConditionColumn
from tiering.lake.schema.stored_columns import stored_columns
from tiering.library_guards.duckdb_guard import duckdb_reason, lock
from tiering.model.schema.field_ids import field_id
from tiering.model.sql_types import spark_type
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

_HINT = "It compares columns of the table with literals, by =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, IS NULL, AND, OR and NOT."
_NOT_RENAMED: Mapping[str, exp.Expr] = MappingProxyType({})


@dataclass(frozen=True)
class ConditionArgument:
    """How errors name the argument that has the condition, and what the call has not done then."""

    name: str
    procedure: str
    consequence: str

    def refusal(self, why: str, hint: str = _HINT) -> InvalidArgument:
        """Returns the error of a condition that cannot be used."""
        return InvalidArgument(f"the argument {self.name!r} of sys.{self.procedure}: {why}", hint=f"{hint} {self.consequence}")


_BACKFILL = ConditionArgument("condition", "backfill_table", "Nothing was copied.")


class RowCondition:
    """One condition on rows with the columns of `table`. `text` is its normal form in Spark SQL."""

    def __init__(
        self,
        condition: str,
        table: TableInfo,
        renamed: Mapping[str, exp.Expr] = _NOT_RENAMED,
        argument: ConditionArgument = _BACKFILL,
    ) -> None:
        """`renamed`: by the name of a column in the condition, the expression that has its values now.

        Raises InvalidArgument that names the part that is not allowed.
        """
        self._argument = argument
        tree = _parsed(condition, table, renamed, argument)
        self._fields = [table.schema.field(name) for name in sorted({column.name for column in tree.find_all(exp.Column)})]
        self.text: str = tree.sql(dialect="spark")
        self._sql: str = tree.sql(dialect="duckdb")

    @staticmethod
    def of_earlier(backfill: Backfill, table: TableInfo, source_columns: pa.Schema) -> RowCondition:
        """Returns the condition of an earlier backfill on rows of the same source, whose columns may have other names now.

        Raises InvalidArgument if one of its columns is gone.
        """
        assert backfill.condition is not None
        present = {column.name: _present_column(column, table, source_columns) for column in backfill.condition_columns}
        for name, expression in present.items():
            if expression is None:
                raise _BACKFILL.refusal(
                    f"it cannot be compared with the condition {backfill.condition} of an earlier backfill, because the column {name!r} is "
                    "gone",
                    "Copy the other rows of the source to another lake table, and backfill that one.",
                )
        return RowCondition(backfill.condition, table, {name: expression for name, expression in present.items() if expression is not None})

    def columns(self, source_columns: pa.Schema) -> tuple[ConditionColumn, ...]:
        """Returns the columns that the condition compares, in the order of their names. `source_columns`: those of the source."""
        ids = _ids_by_name(source_columns)
        return tuple(ConditionColumn(field.name, ids.get(field.name), spark_type(field.type)) for field in self._fields)

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
            raise self._argument.refusal(duckdb_reason(error)) from error
        finally:
            self._connection.unregister("source_rows")
        [values] = rows.values()
        mask: npt.NDArray[np.bool_] = np.asarray(values, np.bool_)
        return mask


class RowSelection:
    """The rows of one backfill: those that match its condition, and not the condition of an earlier backfill from the same source."""

    def __init__(self, table: TableInfo, condition: RowCondition | None, earlier: Sequence[Backfill], source_columns: pa.Schema) -> None:
        """`source_columns`: the present columns of the source. Raises InvalidArgument if a condition cannot be compared."""
        self._condition = condition
        self._earlier = [
            (backfill, RowCondition.of_earlier(backfill, table, source_columns)) for backfill in earlier if backfill.condition is not None
        ]

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of a batch. Raises InvalidArgument for a row that an earlier backfill copied, or may have copied."""
        if self._condition is None:
            return batch
        rows = batch.filter(pa.array(self._condition.matches(batch)))
        for backfill, condition in self._earlier:
            if rows.num_rows and condition.matches(rows).any():
                raise _BACKFILL.refusal(
                    f"rows that match it were copied before, from snapshot {backfill.source_snapshot_id} with the condition "
                    f"{backfill.condition}",
                    "Exclude these rows, for example with AND NOT (...).",
                )
        return rows


def _parsed(condition: str, table: TableInfo, renamed: Mapping[str, exp.Expr], argument: ConditionArgument) -> exp.Expr:
    """Returns the condition with its columns replaced by `renamed`, and all names in quotes. Raises InvalidArgument."""
    try:
        tree: exp.Expr = sqlglot.parse_one(condition, into=exp.Condition, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise argument.refusal("it cannot be read as SQL") from error
    for node in tree.walk():
        if not isinstance(node, _ALLOWED):
            raise argument.refusal(f"{node.sql(dialect='spark')[:80]!r} is not allowed")
        if isinstance(node, exp.Like) and "\\" in node.expression.sql(dialect="spark"):
            raise argument.refusal("LIKE with a backslash has another meaning in each dialect")
        if isinstance(node, exp.Column) and node.name not in renamed and (node.table or node.name not in table.schema.names):
            raise argument.refusal(f"{node.sql(dialect='spark')[:80]!r} is not a column of {table.path}")
    tree = tree.transform(lambda node: renamed[node.name].copy() if isinstance(node, exp.Column) and node.name in renamed else node)
    for name in tree.find_all(exp.Identifier):
        name.set("quoted", True)
    return tree


def _present_column(column: ConditionColumn, table: TableInfo, source_columns: pa.Schema) -> exp.Expr | None:
    """Returns the expression for the values with which a former condition compared the column; None if the column is gone."""
    ids = _ids_by_name(source_columns)
    # A column that the source does not have, then and now, has its name and only NULL.
    name = next(
        (name for name, number in ids.items() if number == column.field_id), None if column.field_id or column.name in ids else column.name
    )
    if name is None or name not in table.schema.names:
        return None
    # A FLOAT that became a DOUBLE compares in another way with a literal such as 1.1.
    is_narrower = column.type_name == "FLOAT" != spark_type(table.schema.field(name).type)
    return exp.cast(exp.column(name), "FLOAT") if is_narrower else exp.column(name)


def _ids_by_name(columns: pa.Schema) -> Mapping[str, int]:
    """Returns the field ids of a lake table's columns."""
    return {field.name: number for field in stored_columns(columns) if (number := field_id(field)) is not None}
