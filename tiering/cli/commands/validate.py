"""`lakeward validate`: DuckDB proves that a lake table equals its log, in a running service or on a data folder with nothing running."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tiering.cli.terminal.consoles import message_console, printable
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption, read_pairs
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.errors import InvalidArgument
from tiering.model.names import parse_table_path
from tiering.model.tables import DEFAULT_LAKE_FORMAT, TablePath
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, Level

COLUMNS = ("check", "scope", "expected", "actual", "ok", "details")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("validate")(validate)


def validate(
    table: TableArgument,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Read this data folder, with nothing running. Without it the service works.", show_default=False),
    ] = None,
    level: Annotated[Level, typer.Option(help="How much is proved: rows counted, offsets each once, or all values.")] = Level.OFFSETS,
    snapshot: Annotated[int | None, typer.Option(help="A lake snapshot; the newest if none is given.", show_default=False)] = None,
    uri: UriOption = DEFAULT_URI,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help=f"With --data: what DuckDB may use ({DEFAULT_MEMORY_LIMIT}); the rest goes to a temporary folder.", show_default=False
        ),
    ] = None,
    lake_format: Annotated[str | None, typer.Option(help="With --data: format of the lake (iceberg).", show_default=False)] = None,
    lake_property: Annotated[
        list[str] | None,
        typer.Option(help="With --data: NAME=VALUE of the lake's catalog, if it is not the data folder's own. Repeatable."),
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Prove that a lake table equals its log. Exit status 1 if it does not.

    Example: lakeward validate sales.orders --level rows

    Example: lakeward validate sales.orders --data ./data
    """
    path = parse_table_path(table)
    if data is None:
        _refuse_folder_options({"--memory-limit": memory_limit, "--lake-format": lake_format, "--lake-property": lake_property})
        rows = _validated_by_service(uri, path, level, snapshot)
    else:
        rows = _validated_here(data, path, level, snapshot, memory_limit, lake_format or DEFAULT_LAKE_FORMAT, lake_property)
    print_rows(rows, output, COLUMNS, {"ok": _colour})
    if any(row["ok"] is False for row in rows):
        raise typer.Exit(1)


def _refuse_folder_options(values: Mapping[str, object]) -> None:
    """Raises InvalidArgument for an option that only a data folder takes."""
    for name, value in values.items():
        if value is not None:
            raise InvalidArgument(f"{name} is for --data: the service goes by its own", hint="Leave it out, or name a folder with --data.")


def _validated_by_service(uri: str, path: TablePath, level: Level, snapshot: int | None) -> list[dict[str, Any]]:
    from tiering.cli.system_catalog import SystemCatalog

    with SystemCatalog(uri) as catalog, message_console().status(f"validating {path} ...") as status:
        return catalog.call(
            "validate_table",
            on_progress=lambda line: status.update(printable(line)),
            table=str(path),
            level=level.value,
            snapshot_id=snapshot,
        )


def _validated_here(
    data: Path,
    path: TablePath,
    level: Level,
    snapshot: int | None,
    memory_limit: str | None,
    lake_format: str,
    lake_property: list[str] | None,
) -> list[dict[str, Any]]:
    from tiering.cli.processes.data_folder import read_data_folder
    from tiering.cluster.registry import kind_in
    from tiering.lake.catalog_properties import with_default_catalog
    from tiering.validate.child import FolderValidation

    folder = read_data_folder(data)
    properties = with_default_catalog(read_pairs(lake_property or (), "--lake-property"), folder.read_only_lake_properties)
    validation = FolderValidation(kind_in(folder.cluster), folder.cluster, lake_format, properties, memory_limit or DEFAULT_MEMORY_LIMIT)
    return [vars(result) for result in validation.run(path, level.value, snapshot)]


def _colour(ok: bool | None) -> str:
    return {True: "green", False: "bold red", None: "yellow"}[ok]
