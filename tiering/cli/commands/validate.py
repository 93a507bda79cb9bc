"""`lakeward validate`: proves with DuckDB that a lake table equals its log, in a running service or without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiering.cli.terminal.cluster_options import FlussClusterIdOption, FlussModeOption, FlussServersOption, checked_settings, read_cluster
from tiering.cli.terminal.consoles import message_console, printable
from tiering.cli.terminal.lake_options import FlussConfOption, NamedLake, read_lake
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.errors import ClusterUnavailable, InvalidArgument
from tiering.model.names import parse_table_path
from tiering.model.tables import DEFAULT_LAKE_FORMAT, TablePath
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, Level

if TYPE_CHECKING:
    from tiering.validate.child import ClusterValidation

WITHOUT_SERVICE = "Without a service"
"""Title of a group of options."""

COLUMNS = ("check", "scope", "expected", "actual", "ok", "details")


def validate(
    context: typer.Context,
    table: TableArgument,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FOLDER", help="Read this data folder, without a service. Default: the service validates.", show_default=False
        ),
    ] = None,
    level: Annotated[
        Level, typer.Option(help="What to prove: the number of rows, each offset exactly once, or all values.")
    ] = Level.OFFSETS,
    snapshot: Annotated[
        int | None, typer.Option(metavar="ID", help="Id of the lake snapshot. Default: the newest snapshot.", show_default=False)
    ] = None,
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
    fluss_cluster_id: FlussClusterIdOption = None,
    fluss_mode: FlussModeOption = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help=f"Memory limit of DuckDB, which writes what does not fit to a temporary folder. Default: {DEFAULT_MEMORY_LIMIT}.",
            show_default=False,
            rich_help_panel=WITHOUT_SERVICE,
        ),
    ] = None,
    lake_format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Format of the lake. Default: iceberg.", show_default=False, rich_help_panel=WITHOUT_SERVICE),
    ] = None,
    lake_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Property of the lake's catalog, if the lake is not in the data folder. Can be repeated.",
            rich_help_panel=WITHOUT_SERVICE,
        ),
    ] = None,
    fluss_conf: FlussConfOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Prove that a lake table equals its log. The exit status is 1 if it does not.

    With --data or --fluss, the command needs no service. It reads the log of a Fluss cluster from the cluster's servers, which have to run.
    It sends user and password only to servers that --fluss names, not to servers that only a data folder names.

    Example: lakeward validate sales.orders --level rows

    Example: lakeward validate sales.orders --data ./data

    Example: lakeward validate sales.orders --fluss fluss-host:9123 --fluss-cluster-id sales-production --fluss-conf server.yaml
    """
    path = parse_table_path(table)
    lake = read_lake(context, lake_property, fluss_conf)
    kind, settings = read_cluster(fluss, fluss_cluster_id, fluss_mode)
    if data is None and fluss is None:
        _refuse_options_of_folders({"--memory-limit": memory_limit, "--lake-format": lake_format, "an option of the lake": lake})
        rows = _validated_by_service(uri, path, level, snapshot)
    else:
        cluster = _cluster_of_folder(data, settings, lake) if data is not None else _named_cluster(kind, settings, lake)
        named = lake_format or (None if lake is None else lake.format)
        whole = replace(cluster, lake_format=named or DEFAULT_LAKE_FORMAT, memory_limit=memory_limit or DEFAULT_MEMORY_LIMIT)
        rows = _validated_here(whole, path, level, snapshot)
    print_rows(rows, output, COLUMNS, {"ok": _colour})
    if any(row["ok"] is False for row in rows):
        raise typer.Exit(1)


def _refuse_options_of_folders(values: Mapping[str, object]) -> None:
    """Raises InvalidArgument for an option that only a validation without a service has."""
    for name, value in values.items():
        if value is not None:
            raise InvalidArgument(
                f"{name} needs --data or --fluss: a service uses its own settings", hint="Leave it out, or name a folder with --data."
            )


def _validated_by_service(uri: str, path: TablePath, level: Level, snapshot: int | None) -> list[dict[str, Any]]:
    from sys_tables.catalog_client import SystemCatalog

    with SystemCatalog(uri) as catalog, message_console().status(f"validating {path} ...") as status:
        return catalog.call(
            "validate_table",
            on_progress=lambda line: status.update(printable(line)),
            table=str(path),
            level=level.value,
            snapshot_id=snapshot,
        )


def _cluster_of_folder(data: Path, settings: Mapping[str, str], lake: NamedLake | None) -> ClusterValidation:
    """Returns the validation of a data folder. `settings` come from `--fluss`: with them, the command sends a password to the cluster."""
    from tiering.cli.processes.data_folder import read_data_folder
    from tiering.cluster.registry import FLUSS, check_folder, kind_in
    from tiering.lake.catalog_properties import with_default_catalog
    from tiering.validate.child import ClusterValidation

    folder = read_data_folder(data)
    properties = with_default_catalog({} if lake is None else lake.properties, folder.read_only_lake_properties)
    kind = FLUSS if settings else kind_in(folder.cluster)
    check_folder(folder.cluster, kind)
    return ClusterValidation(kind, folder.cluster, DEFAULT_LAKE_FORMAT, properties, cluster_properties=settings)


def _named_cluster(kind: str, settings: Mapping[str, str], lake: NamedLake | None) -> ClusterValidation:
    from tiering.lake.catalog_properties import check_catalog_properties
    from tiering.validate.child import ClusterValidation

    if lake is None:
        raise InvalidArgument(
            "--fluss names a cluster, but no option names its lake",
            hint="Name the lake with --fluss-conf server.yaml, --datalake.iceberg.*, --datalake.paimon.*, or --lake-property. "
            "Or name a data folder with --data.",
        )
    check_catalog_properties(lake.properties)
    cluster_id, checked = checked_settings(settings)
    lake_format = lake.format or DEFAULT_LAKE_FORMAT
    return ClusterValidation(kind, None, lake_format, lake.properties, cluster_id=cluster_id, cluster_properties=checked)


def _validated_here(validation: ClusterValidation, path: TablePath, level: Level, snapshot: int | None) -> list[dict[str, Any]]:
    try:
        return [vars(result) for result in validation.run(path, level.value, snapshot)]
    except ClusterUnavailable as error:
        needed = "The validation reads tables and log from the cluster's servers, which have to run. It needs no service of Lakeward."
        error.hint = f"{error.hint} {needed}".lstrip()
        raise


def _colour(ok: bool | None) -> str:
    return {True: "green", False: "bold red", None: "yellow"}[ok]
