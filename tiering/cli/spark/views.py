"""Views in Spark's built-in catalog over the system tables: `lakeward spark-views`.

GUI tools ask a Thrift server what there is through JDBC's metadata calls, which Spark answers from `spark_catalog` alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from sys_tables.declare.sql_types import literal
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.cli.spark.properties import CATALOG
from tiering.model.names import quote_identifier

SPARK_CATALOG = "spark_catalog"


def view_statements(tables: Iterable[pb.SystemTable], database: str) -> str:
    """Spark SQL that makes, or makes anew, `spark_catalog.<database>` with a view of each table: a line each, ended by `;`.

    A view's columns keep types and comments of the table's.
    """
    schema = f"{SPARK_CATALOG}.{quote_identifier(database)}"
    lines = [f"CREATE DATABASE IF NOT EXISTS {schema} COMMENT 'System tables of Lakeward.';"]
    for table in tables:
        source = ".".join(quote_identifier(name) for name in (CATALOG, table.namespace, table.name))
        comment = literal(table.comment).replace(";", "\\u003B")  # beeline ends a statement at any
        view = f"{schema}.{quote_identifier(table.name)}"
        lines.append(f"CREATE OR REPLACE VIEW {view} COMMENT {comment} AS SELECT * FROM {source};")
    return "".join(f"{line}\n" for line in lines)
