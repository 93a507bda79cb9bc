"""`lakeward add-column`: adds a column to a table, behind the existing columns."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.cluster_options import FlussServersOption
from tiering.cli.terminal.options import DEFAULT_URI, TableArgument, UriOption
from tiering.errors import InvalidArgument
from tiering.model.names import parse_table_path


def add_column(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="Name of the new column.")],
    column_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="Type of the column in Spark SQL: BIGINT, 'DECIMAL(10,2)', 'ARRAY<STRING>'.")
    ],
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
) -> None:
    """Add a column to a table. The next round adds it to the lake table. Existing rows have NULL in it.

    Example: lakeward add-column sales.orders coupon STRING
    """
    import pyarrow as pa

    from tiering.cli.service_cluster import writable_cluster
    from tiering.cli.spark.types import arrow_type
    from tiering.model.schema.changes import AddColumn
    from tiering.model.sql_types import spark_type

    path = parse_table_path(table)
    field = pa.field(name, arrow_type(column_type))
    with writable_cluster(uri, fluss) as cluster:
        if name in cluster.table(path).schema.names:
            raise InvalidArgument(f"the table {path} already has a column {name!r}", hint="`lakeward tables` shows the columns.")
        cluster.alter_table(path, {}, [AddColumn(field)])
    print(f"{path}: the column {name} {spark_type(field.type)} was added; the next round adds it to the lake table")
