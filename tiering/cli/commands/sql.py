"""`lakeward sql`: runs SQL statements, without a Spark installation of the user."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sys_tables.catalog_client import SystemCatalog
from tiering.cli.spark.java import require_java
from tiering.cli.sql.engine import Engine, EngineKind
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, message_console
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption, read_pairs
from tiering.cli.terminal.output import OutputFormat
from tiering.errors import InvalidArgument, InvalidData
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.tables import DEFAULT_LAKE_FORMAT

if TYPE_CHECKING:
    from tiering.cli.sql.statements import Statement

WITH_SPARK = "With --engine spark"
WITH_DUCKDB = "With --engine duckdb"
"""Titles of groups of options."""

WORDS = ("SELECT", "FROM", "WHERE", "ORDER BY", "GROUP BY", "LIMIT", "SHOW TABLES IN", "SHOW NAMESPACES IN", "DESCRIBE TABLE", "CALL")


@dataclass(frozen=True)
class EngineOptions:
    """Options with which an engine starts."""

    uri: str
    master: str | None
    conf: Mapping[str, str]
    lake: bool
    data: Path | None
    lake_format: str | None
    lake_properties: Mapping[str, str]


def sql(
    statement: Annotated[
        str | None,
        typer.Argument(metavar="STATEMENT", help="Statements, separated by ';'. Default: a prompt that reads them.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="File with statements; - is the standard input.")
    ] = None,
    uri: UriOption = DEFAULT_URI,
    output: FormatOption = OutputFormat.TABLE,
    engine: Annotated[EngineKind, typer.Option(help="Engine that runs the statements.")] = EngineKind.SPARK,
    lake: Annotated[bool, typer.Option("--lake", help="Read lake tables, too. Run `lakeward fetch-jars` once before.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master of the session. Default: local[*].", rich_help_panel=WITH_SPARK)
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="Spark property of the session. Can be repeated.", rich_help_panel=WITH_SPARK),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FOLDER", help="Read this data folder, without a service.", show_default=False, rich_help_panel=WITH_DUCKDB
        ),
    ] = None,
    lake_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --data: format of the lake. Default: iceberg.", show_default=False, rich_help_panel=WITH_DUCKDB
        ),
    ] = None,
    lake_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="With --data: property of the lake's catalog, if the lake is not in the data folder. Can be repeated.",
            rich_help_panel=WITH_DUCKDB,
        ),
    ] = None,
) -> None:
    """Run SQL from the command line, a file or a pipe, or at a prompt. The default catalog is `fluss`.

    Example: lakeward sql "SELECT table_name, status, lag_ms FROM sys.lake_tiering_status" --format csv

    Example: lakeward sql -f report.sql

    Example: lakeward sql --engine duckdb "SELECT table_name, lag_ms FROM sys.lake_tiering_status"

    Example: lakeward sql --engine duckdb --data ./data "SELECT count(*) FROM lake.sales.orders"
    """
    from tiering.cli.sql.prompt import converse, line_editing
    from tiering.cli.sql.session import SqlSession

    text, source = _script_text(statement, file)
    statements = () if text is None else _statements(text, source)
    properties = read_pairs(lake_property or [], "--lake-property")
    options = EngineOptions(uri, master, read_pairs(conf or [], "--conf"), lake, data, lake_format, properties)
    _check_engine(engine, options)
    # Ask the service before Spark starts, which takes seconds: the service may not answer.
    names = _names(uri) if data is None else _known_names()
    console = message_console()
    if console.is_terminal:
        end_orderly_on_sigterm()
    with console.status("starting Spark ...") if engine is EngineKind.SPARK else nullcontext():
        opened = _open(engine, options)
    try:
        session = SqlSession(opened, output, timed=text is None)
        if text is not None:
            session.run_all(statements, source)
        else:
            where = f"Connected to {uri}" if data is None else f"Reading {data}, with nothing running"
            console.print(f"{where}. A statement ends with ';'. 'help' helps, Ctrl-D leaves.")
            with line_editing(names):
                converse(session)
    finally:
        opened.close()


def _script_text(statement: str | None, file: Path | None) -> tuple[str | None, str]:
    """Returns the text to run, or None for a prompt, and the name of its source. Raises InvalidArgument."""
    if statement is not None and file is not None:
        raise InvalidArgument("a statement and --file cannot be combined", hint="Leave one of them out.")
    if statement is not None:
        return statement, "the command line"
    if file is None and sys.stdin.isatty():
        return None, "the prompt"
    if file is None or str(file) == "-":
        return sys.stdin.read(), "standard input"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {file}: {error}", hint="Name a file with SQL in UTF-8.") from error


def _statements(text: str, source: str) -> tuple[Statement, ...]:
    """Returns the statements. Raises InvalidData for a text without a statement, or with an unfinished last statement."""
    from tiering.cli.sql.statements import split

    try:
        statements = split(text).all
    except InvalidData as error:
        raise InvalidData(f"{source}: {error.message}", hint=error.hint) from error
    if not statements:
        raise InvalidData(f"{source}: there is no statement", hint='Write, for example: lakeward sql "SHOW TABLES IN sys"')
    return statements


def _names(uri: str) -> tuple[str, ...]:
    """Returns the names that the prompt completes, from the service. Raises ServiceUnreachable."""
    with SystemCatalog(uri) as catalog:
        description = catalog.describe()
    tables = [f"{table.namespace}.{table.name}" for table in description.system_tables]
    procedures = [f"{procedure.namespace}.{procedure.name}(" for procedure in description.procedures]
    return (*WORDS, *tables, *procedures, *description.namespaces)


def _known_names() -> tuple[str, ...]:
    """Returns the names that the prompt completes without a service."""
    from sys_tables.registry import default_registry

    registry = default_registry()
    procedures = [f"{SYSTEM_DATABASE}.{procedure.name}(" for procedure in registry.procedures]
    return (*WORDS, *(f"{SYSTEM_DATABASE}.{table.name}" for table in registry.tables), *procedures, SYSTEM_DATABASE)


def _check_engine(kind: EngineKind, options: EngineOptions) -> None:
    """Raises InvalidArgument for an option of the other engine."""
    if kind is EngineKind.DUCKDB and options.data is None and (options.lake_properties or options.lake_format is not None):
        raise InvalidArgument("--lake-format and --lake-property need --data: a service knows its lake", hint="Leave them out.")
    of_spark = {"--conf": options.conf, "--master": options.master, "--lake": options.lake}
    if kind is EngineKind.DUCKDB and any(of_spark.values()):
        named = next(name for name, value in of_spark.items() if value)
        raise InvalidArgument(f"{named} is an option for Spark, which --engine duckdb does not start", hint=f"Leave {named} out.")
    of_duckdb = {"--data": options.data, "--lake-format": options.lake_format, "--lake-property": options.lake_properties}
    if kind is EngineKind.SPARK and any(of_duckdb.values()):
        named = next(name for name, value in of_duckdb.items() if value)
        raise InvalidArgument(
            f"{named} needs --engine duckdb: with Spark, the command asks the service", hint=f"Add --engine duckdb, or leave {named} out."
        )


def _open(kind: EngineKind, options: EngineOptions) -> Engine:
    match kind:
        case EngineKind.SPARK:
            require_java()
            from tiering.cli.service_lake import service_lake
            from tiering.cli.spark.properties import catalog_lake_properties
            from tiering.cli.sql.spark_engine import SparkEngine

            lake = catalog_lake_properties(service_lake(options.uri).properties) if options.lake else {}

            return SparkEngine(options.uri, options.master or "local[*]", {**lake, **options.conf})
        case EngineKind.DUCKDB:
            if options.data is None:
                from tiering.cli.sql.service_engine import ServiceDuckDbEngine

                return ServiceDuckDbEngine(options.uri)
            from tiering.cli.sql.offline_engine import DuckDbEngine

            return DuckDbEngine(options.data, options.lake_format or DEFAULT_LAKE_FORMAT, options.lake_properties)
