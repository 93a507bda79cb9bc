"""`lakeward sql`: SQL without setting up a Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiering.cli.spark.java import require_java
from tiering.cli.sql.engine import Engine, EngineKind
from tiering.cli.system_catalog import SystemCatalog
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, message_console
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption, read_pairs
from tiering.cli.terminal.output import OutputFormat
from tiering.errors import InvalidArgument, InvalidData
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.tables import DEFAULT_LAKE_FORMAT

if TYPE_CHECKING:
    from tiering.cli.sql.statements import Statement

WORDS = ("SELECT", "FROM", "WHERE", "ORDER BY", "GROUP BY", "LIMIT", "SHOW TABLES IN", "SHOW NAMESPACES IN", "DESCRIBE TABLE", "CALL")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("sql")(sql)


@dataclass(frozen=True)
class EngineOptions:
    """What an engine may need to start."""

    uri: str
    master: str | None
    conf: Mapping[str, str]
    lake: bool
    data: Path | None
    lake_format: str | None
    lake_properties: Mapping[str, str]


def sql(
    statement: Annotated[str | None, typer.Argument(help="One or more, separated by ';'. Without: a prompt.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read statements from a file; - reads standard input.")] = None,
    uri: UriOption = DEFAULT_URI,
    output: FormatOption = OutputFormat.TABLE,
    engine: Annotated[EngineKind, typer.Option(help="What runs the statements.")] = EngineKind.SPARK,
    lake: Annotated[bool, typer.Option("--lake", help="Read lake tables too; `lakeward fetch-jars` first, once.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark master of the session; local[*] if left out.")] = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", help="NAME=VALUE for that Spark; repeat it.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="With --engine duckdb: read this data folder; no service is asked.", show_default=False)
    ] = None,
    lake_format: Annotated[str | None, typer.Option(help="With --data: format of the lake (iceberg).", show_default=False)] = None,
    lake_property: Annotated[
        list[str] | None,
        typer.Option(help="With --data: NAME=VALUE of the lake's catalog, if it is not the data folder's own. Repeatable."),
    ] = None,
) -> None:
    """Run SQL: from the command line, a file or a pipe, or at a prompt. `fluss` is the default catalog.

    Example: lakeward sql "SELECT table_name, status, lag_ms FROM sys.lake_tiering_status" --format csv

    Example: lakeward sql -f report.sql

    Example: lakeward sql --engine duckdb "SELECT table_name, lag_ms FROM sys.lake_tiering_status"

    Example: lakeward sql --engine duckdb --data ./data "SELECT count(*) FROM lake.sales.orders"
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.sql.prompt import converse, line_editing
    from tiering.cli.sql.session import SqlSession

    text, source = _script_text(statement, file)
    statements = () if text is None else _statements(text, source)
    properties = read_pairs(lake_property or [], "--lake-property")
    options = EngineOptions(uri, master, read_pairs(conf or [], "--conf"), lake, data, lake_format, properties)
    _check_engine(engine, options)
    # Before Spark, which takes seconds: nobody may be there.
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
    """The text to run and where it is from; None = ask the person at the terminal. Raises InvalidArgument."""
    if statement is not None and file is not None:
        raise InvalidArgument("a statement and --file are given: only one of them can be run", hint="Leave one out.")
    if statement is not None:
        return statement, "the command line"
    if file is None and sys.stdin.isatty():
        return None, "the prompt"
    if file is None or str(file) == "-":
        return sys.stdin.read(), "standard input"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {file}: {error}", hint="Name a file of SQL in UTF-8.") from error


def _statements(text: str, source: str) -> tuple[Statement, ...]:
    """Raises InvalidData for a text without a statement, or whose last one never ends."""
    from tiering.cli.sql.statements import split

    try:
        statements = split(text).all
    except InvalidData as error:
        raise InvalidData(f"{source}: {error.message}", hint=error.hint) from error
    if not statements:
        raise InvalidData(f"{source}: there is no statement", hint='Such as: lakeward sql "SHOW TABLES IN sys"')
    return statements


def _names(uri: str) -> tuple[str, ...]:
    """What the prompt completes. Raises ServiceUnreachable."""
    with SystemCatalog(uri) as catalog:
        description = catalog.describe()
    tables = [f"{table.namespace}.{table.name}" for table in description.system_tables]
    procedures = [f"{procedure.namespace}.{procedure.name}(" for procedure in description.procedures]
    return (*WORDS, *tables, *procedures, *description.namespaces)


def _known_names() -> tuple[str, ...]:
    """The same without a service."""
    from sys_tables.registry import default_registry

    registry = default_registry()
    procedures = [f"{SYSTEM_DATABASE}.{procedure.name}(" for procedure in registry.procedures]
    return (*WORDS, *(f"{SYSTEM_DATABASE}.{table.name}" for table in registry.tables), *procedures, SYSTEM_DATABASE)


def _check_engine(kind: EngineKind, options: EngineOptions) -> None:
    """Raises InvalidArgument for options that are the other engine's."""
    if kind is EngineKind.DUCKDB and options.data is None and (options.lake_properties or options.lake_format is not None):
        raise InvalidArgument("--lake-format and --lake-property are for --data: the service goes by its own", hint="Leave them out.")
    of_spark = {"--conf": options.conf, "--master": options.master, "--lake": options.lake}
    if kind is EngineKind.DUCKDB and any(of_spark.values()):
        named = next(name for name, value in of_spark.items() if value)
        raise InvalidArgument(f"{named} is for Spark, and --engine duckdb starts none", hint="Leave it out.")
    of_duckdb = {"--data": options.data, "--lake-format": options.lake_format, "--lake-property": options.lake_properties}
    if kind is EngineKind.SPARK and any(of_duckdb.values()):
        named = next(name for name, value in of_duckdb.items() if value)
        raise InvalidArgument(f"{named} is for --engine duckdb: Spark asks the service", hint="Add --engine duckdb, or leave it out.")


def _open(kind: EngineKind, options: EngineOptions) -> Engine:
    match kind:
        case EngineKind.SPARK:
            require_java()
            from tiering.cli.service_lake import service_lake_properties
            from tiering.cli.spark.properties import catalog_lake_properties
            from tiering.cli.sql.spark_engine import SparkEngine

            lake = catalog_lake_properties(service_lake_properties(options.uri)) if options.lake else {}

            return SparkEngine(options.uri, options.master or "local[*]", {**lake, **options.conf})
        case EngineKind.DUCKDB:
            if options.data is None:
                from tiering.cli.sql.service_engine import ServiceDuckDbEngine

                return ServiceDuckDbEngine(options.uri)
            from tiering.cli.sql.offline_engine import DuckDbEngine

            return DuckDbEngine(options.data, options.lake_format or DEFAULT_LAKE_FORMAT, options.lake_properties)
