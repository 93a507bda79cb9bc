"""`lakeward sql`: SQL without setting up a Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiering.cli.consoles import end_orderly_on_sigterm, message_console
from tiering.cli.java import require_java
from tiering.cli.options import DEFAULT_URI, FormatOption, UriOption, read_pairs
from tiering.cli.output import OutputFormat
from tiering.cli.sql.engine import Engine, EngineKind
from tiering.cli.system_catalog import SystemCatalog
from tiering.errors import InvalidArgument, InvalidData

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
    master: str
    conf: Mapping[str, str]
    lake: bool


def sql(
    statement: Annotated[str | None, typer.Argument(help="One or more, separated by ';'. Without: a prompt.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read statements from a file; - reads standard input.")] = None,
    uri: UriOption = DEFAULT_URI,
    output: FormatOption = OutputFormat.TABLE,
    engine: Annotated[EngineKind, typer.Option(help="What runs the statements.")] = EngineKind.SPARK,
    lake: Annotated[bool, typer.Option("--lake", help="Read lake tables too. Spark fetches Iceberg from Maven Central once.")] = False,
    master: Annotated[str, typer.Option(help="Spark master of the session.")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option("--conf", help="NAME=VALUE for that Spark; repeat it.")] = None,
) -> None:
    """Run SQL: from the command line, a file or a pipe, or at a prompt. `fluss` is the default catalog.

    Example: lakeward sql "SELECT table_name, status, lag_ms FROM sys.lake_tiering_status" --format csv

    Example: lakeward sql -f report.sql
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.sql.prompt import converse, line_editing
    from tiering.cli.sql.session import SqlSession

    text, source = _given(statement, file)
    statements = () if text is None else _statements(text, source)
    options = EngineOptions(uri, master, read_pairs(conf or [], "--conf"), lake)
    names = _names(uri)  # before Spark, which takes seconds: nobody may be there
    console = message_console()
    if console.is_terminal:
        end_orderly_on_sigterm()
    with console.status("starting Spark ..."):
        opened = _open(engine, options)
    try:
        session = SqlSession(opened, output, told=text is None)
        if text is not None:
            session.run_all(statements, source)
        else:
            console.print(f"Connected to {uri}. A statement ends with ';'. 'help' helps, Ctrl-D leaves.")
            with line_editing(names):
                converse(session)
    finally:
        opened.close()


def _given(statement: str | None, file: Path | None) -> tuple[str | None, str]:
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
        found = split(text).all
    except InvalidData as error:
        raise InvalidData(f"{source}: {error.message}", hint=error.hint) from error
    if not found:
        raise InvalidData(f"{source}: there is no statement", hint='Such as: lakeward sql "SHOW TABLES IN sys"')
    return found


def _names(uri: str) -> tuple[str, ...]:
    """What the prompt completes. Raises ServiceUnreachable."""
    with SystemCatalog(uri) as catalog:
        said = catalog.describe()
    tables = [f"{table.namespace}.{table.name}" for table in said.system_tables]
    procedures = [f"{procedure.namespace}.{procedure.name}(" for procedure in said.procedures]
    return (*WORDS, *tables, *procedures, *said.namespaces)


def _open(kind: EngineKind, options: EngineOptions) -> Engine:
    match kind:
        case EngineKind.SPARK:
            require_java()
            conf = {**(_lake_conf(options.uri) if options.lake else {}), **options.conf}
            from tiering.cli.sql.spark_engine import SparkEngine

            return SparkEngine(options.uri, options.master, conf)


def _lake_conf(uri: str) -> dict[str, str]:
    from tiering.cli.spark_properties import catalog_lake_properties
    from tiering.round.transport import GrpcTransport

    transport = GrpcTransport(uri, "sql")
    try:
        return catalog_lake_properties(transport.service_config_now().lake_properties)
    finally:
        transport.close()
