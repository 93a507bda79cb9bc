"""Generates SQL for views of the system tables in Spark's built-in catalog, for `lakeward spark-views`.

GUI tools list tables with JDBC's metadata calls, which Spark's Thrift server answers from `spark_catalog` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.cli.spark.properties import CATALOG
from tiering.model.names import check_name, quote_identifier
from tiering.model.sql_types import literal

SPARK_CATALOG = "spark_catalog"
_NOT_AS_IT_IS = re.compile(r"[;\x00-\x1f\x7f-\uffff]")
"""Characters of a comment that are escaped. beeline ends a statement at any `;`, and runs a line that begins with `!` as its command."""


def view_statements(tables: Iterable[pb.SystemTable], database: str) -> str:
    """Returns Spark SQL that creates or replaces `spark_catalog.<database>` with a view of each table, one statement per line.

    The columns of a view have the types and comments of the table. Users run the text line by line and trust this command, but may not
    trust the service. So names have to follow the rule for names, and comments cannot leave their quotes. Raises InvalidName.
    """
    schema = f"{SPARK_CATALOG}.{quote_identifier(database)}"
    lines = [f"CREATE DATABASE IF NOT EXISTS {schema} COMMENT 'System tables of Lakeward.';"]
    for table in tables:
        for name in (table.namespace, table.name):
            check_name(name, "table")
        source = ".".join(quote_identifier(name) for name in (CATALOG, table.namespace, table.name))
        comment = _NOT_AS_IT_IS.sub(lambda match: f"\\u{ord(match[0]):04X}", literal(table.comment))
        view = f"{schema}.{quote_identifier(table.name)}"
        lines.append(f"CREATE OR REPLACE VIEW {view} COMMENT {comment} AS SELECT * FROM {source};")
    return "".join(f"{line}\n" for line in lines)
