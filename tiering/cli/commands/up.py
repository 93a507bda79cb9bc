"""`lakeward up`: coordinator, tierer and embedded cluster on one data folder, as one process tree."""

from __future__ import annotations

import asyncio

import typer

from tiering.cli.terminal.access_options import Auth
from tiering.cli.terminal.lake_options import OTHER_OPTIONS
from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.options import (
    DEFAULT_SLOTS,
    DEFAULT_STALLED_AFTER,
    ConfOption,
    MasterOption,
    SlotsOption,
    StalledAfterOption,
    TiererMetricsPortOption,
    read_stalled_after,
)
from tiering.cli.terminal.service_options import ServiceOptions


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("up", context_settings=OTHER_OPTIONS)(up)


@with_options(ServiceOptions)
def up(
    context: typer.Context,
    options: ServiceOptions,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    slots: SlotsOption = DEFAULT_SLOTS,
    stalled_after: StalledAfterOption = DEFAULT_STALLED_AFTER,
    tierer_metrics_port: TiererMetricsPortOption = None,
) -> None:
    """Run everything on this machine: coordinator, tierer and embedded cluster on one data folder.

    With --fluss the tables are those of an Apache Fluss cluster that runs elsewhere.

    Example: lakeward up --data ./lakeward-data --port 7707
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.processes.up import UpSettings, serve_up

    stalled_ms, settings = read_stalled_after(stalled_after), options.begin(context, Auth.TOKEN)
    log_level, log_format = options.log_level, options.log_format
    asyncio.run(serve_up(UpSettings(settings, master, slots, conf or [], log_level, log_format, tierer_metrics_port, stalled_ms)))
