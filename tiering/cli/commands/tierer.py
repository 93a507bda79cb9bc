"""`lakeward tierer`: runs a tierer, a Spark driver that moves tables into the lake."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tiering.cli.terminal.cluster_options import read_storage
from tiering.cli.terminal.lake_options import FlussConfOption, read_lake
from tiering.cli.terminal.logs import LogFormat, configure_logging
from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.options import (
    DEFAULT_URI,
    METRICS_GROUP,
    LogFormatOption,
    LogLevelOption,
    MetricsAddress,
    TiererOptions,
    UriOption,
)
from tiering.files.private_files import keep_files_private
from tiering.lake.catalog_properties import lake_environment


@with_options(TiererOptions)
@with_options(MetricsAddress, "metrics")
def tierer(
    context: typer.Context,
    uri: UriOption = DEFAULT_URI,
    *,
    options: TiererOptions,
    fluss_conf: FlussConfOption = None,
    tierer_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of the tierer in the system tables. Default: a random id.")
    ] = None,
    metrics: MetricsAddress,
    insecure: Annotated[
        bool,
        typer.Option(
            help="Allow a --metrics-host other than loopback: the pages have neither TLS nor authentication.",
            rich_help_panel=METRICS_GROUP,
        ),
    ] = False,
    parent_pid: Annotated[int | None, typer.Option(hidden=True)] = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = LogFormat.CONSOLE,
) -> None:
    """Run a tierer: a Spark driver that moves tables into the lake.

    It learns the lake from the coordinator, and the secrets of the lake from its own environment or from --fluss-conf.

    Example: lakeward tierer --uri coordinator-host:7707 --master spark://spark-host:7077
    """
    from tiering.cli.processes.tierer import run_tierer

    configure_logging(log_level, log_format)
    keep_files_private()
    lake = read_lake(context, None, fluss_conf)
    os.environ.update(lake_environment({} if lake is None else lake.properties))
    read_storage(fluss_conf)
    run_tierer(uri, options, metrics, tierer_id=tierer_id, parent_pid=parent_pid, insecure=insecure)
