"""`lakeward spark-views`: prints SQL that creates views of the system tables in Spark's built-in catalog.

GUI tools list tables with JDBC's metadata calls, which Spark's Thrift server answers from `spark_catalog` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import typer

from sys_tables.catalog_client import SystemCatalog
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.cli.spark.properties import CATALOG, SESSION_CATALOG
from tiering.cli.terminal.options import DEFAULT_URI, UriOption
from tiering.model.names import check_name, quote_identifier
from tiering.model.sql_types import literal

_NOT_AS_IT_IS = re.compile(r"[;\x00-\x1f\x7f-\uffff]")
"""Characters of a comment that are escaped. beeline ends a statement at any `;`, and runs a line that begins with `!` as its command."""


def spark_views(
    database: Annotated[str, typer.Option(metavar="NAME", help="Database of Spark's built-in catalog for the views.")] = "lakeward",
    uri: UriOption = DEFAULT_URI,
) -> None:
    """Print SQL that creates views of the system tables, for tools that show only Spark's built-in catalog.

    Example: lakeward spark-views > views.sql && beeline -u jdbc:hive2://127.0.0.1:10000/sys -f views.sql
    """
    check_name(database, "database")
    with SystemCatalog(uri) as catalog:
        tables = catalog.describe().system_tables
    print(view_statements(tables, database), end="")


def view_statements(tables: Iterable[pb.SystemTable], database: str) -> str:
    """Returns Spark SQL that creates or replaces `spark_catalog.<database>` with a view of each table, one statement per line.

    The columns of a view have the types and comments of the table. Users run the text line by line and trust this command, but may not
    trust the service. So names have to follow the rule for names, and comments cannot leave their quotes. Raises InvalidName.
    """
    schema = f"{SESSION_CATALOG}.{quote_identifier(database)}"
    lines = [f"CREATE DATABASE IF NOT EXISTS {schema} COMMENT 'System tables of Lakeward.';"]
    for table in tables:
        for name in (table.namespace, table.name):
            check_name(name, "table")
        source = ".".join(quote_identifier(name) for name in (CATALOG, table.namespace, table.name))
        comment = _NOT_AS_IT_IS.sub(lambda match: f"\\u{ord(match[0]):04X}", literal(table.comment))
        view = f"{schema}.{quote_identifier(table.name)}"
        lines.append(f"CREATE OR REPLACE VIEW {view} COMMENT {comment} AS SELECT * FROM {source};")
    return "".join(f"{line}\n" for line in lines)
