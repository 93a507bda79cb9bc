"""`lakeward tierer`: a Spark driver that moves tables into the lake."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tiering.cli.terminal.cluster_options import read_storage
from tiering.cli.terminal.lake_options import OTHER_OPTIONS, FlussConfOption, read_lake
from tiering.cli.terminal.logs import LogFormat, configure_logging
from tiering.cli.terminal.options import (
    DEFAULT_SLOTS,
    DEFAULT_STALLED_AFTER,
    DEFAULT_URI,
    ConfOption,
    LogFormatOption,
    LogLevelOption,
    MasterOption,
    MetricsHostOption,
    MetricsPortOption,
    SlotsOption,
    StalledAfterOption,
    UriOption,
    read_pairs,
    read_stalled_after,
)
from tiering.files.private_files import keep_files_private
from tiering.lake.catalog_properties import lake_environment


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("tierer", context_settings=OTHER_OPTIONS)(tierer)


def tierer(
    context: typer.Context,
    uri: UriOption = DEFAULT_URI,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    slots: SlotsOption = DEFAULT_SLOTS,
    stalled_after: StalledAfterOption = DEFAULT_STALLED_AFTER,
    fluss_conf: FlussConfOption = None,
    tierer_id: Annotated[str | None, typer.Option(help="Its name in the system tables; made up by default.")] = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    insecure: Annotated[bool, typer.Option(help="Serve metrics off loopback although nothing is encrypted or checked.")] = False,
    parent_pid: Annotated[int | None, typer.Option(hidden=True)] = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = LogFormat.CONSOLE,
) -> None:
    """Run a tierer: a Spark driver that moves tables into the lake.

    The coordinator tells it the lake; what is secret of it comes from the environment, or from --fluss-conf.

    Example: lakeward tierer --uri coordinator-host:7707 --master spark://spark-host:7077
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.processes.monitoring import MonitoringSettings
    from tiering.cli.processes.tierer import TiererSettings, run_tierer

    configure_logging(log_level, log_format)
    keep_files_private()
    lake = read_lake(context, None, fluss_conf)
    os.environ.update(lake_environment({} if lake is None else lake.properties))
    read_storage(fluss_conf)
    properties, monitoring = read_pairs(conf or [], "--conf"), MonitoringSettings(metrics_port, metrics_host)
    stalled_ms = read_stalled_after(stalled_after)
    run_tierer(TiererSettings(uri, master, slots, tierer_id, properties, parent_pid, monitoring, insecure, stalled_ms))
