"""`lakeward validate`: DuckDB proves that a lake table equals its log. Needs only the data folder; nothing has to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.terminal.options import FormatOption, TableArgument, read_pairs
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.model.names import parse_table_path
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, Level

COLUMNS = ("check", "scope", "expected", "actual", "ok", "details")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("validate")(validate)


def validate(
    table: TableArgument,
    data: Annotated[Path, typer.Option("--data", help="The data folder of `lakeward up` or `lakeward coordinator`.")],
    level: Annotated[Level, typer.Option(help="How much is proved: rows counted, offsets each once, or all values.")] = Level.OFFSETS,
    snapshot: Annotated[int | None, typer.Option(help="A lake snapshot; the newest if none is given.", show_default=False)] = None,
    memory_limit: Annotated[str, typer.Option(help="What DuckDB may use; the rest goes to a temporary folder.")] = DEFAULT_MEMORY_LIMIT,
    lake_format: Annotated[str, typer.Option(help="Format of the lake.")] = "iceberg",
    lake_property: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the lake's catalog, if it is not the data folder's own. Repeatable.")
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Prove that a lake table equals its log, also with nothing running. Exit status 1 if it does not.

    Example: lakeward validate sales.orders --data ./data --level rows
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.processes.data_folder import read_data_folder
    from tiering.lake.catalog_properties import with_default_catalog
    from tiering.validate.child import ValidationRequest, run_validation

    path = parse_table_path(table)
    folder = read_data_folder(data)
    request = ValidationRequest(
        cluster_folder=str(folder.cluster),
        lake_format=lake_format,
        database_name=path.database_name,
        table_name=path.table_name,
        level=level.value,
        snapshot_id=snapshot,
        memory_limit=memory_limit,
        lake_properties=with_default_catalog(read_pairs(lake_property or (), "--lake-property"), folder.read_only_lake_properties),
    )
    results = run_validation(request)
    print_rows([vars(result) for result in results], output, COLUMNS, {"ok": _colour})
    if any(result.ok is False for result in results):
        raise typer.Exit(1)


def _colour(ok: bool | None) -> str:
    return {True: "green", False: "bold red", None: "yellow"}[ok]
