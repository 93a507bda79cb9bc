"""`lakeward spark-views`: prints SQL that creates views of the system tables in Spark's built-in catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.spark.views import view_statements
from tiering.cli.system_catalog import SystemCatalog
from tiering.cli.terminal.options import DEFAULT_URI, UriOption
from tiering.model.names import check_name


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
