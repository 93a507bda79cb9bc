"""`lakeward up`: runs coordinator, tierer and embedded cluster on one data folder, as one process tree."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.terminal.access_options import Auth
from tiering.cli.terminal.logs import configure_logging
from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.options import METRICS_GROUP, TiererOptions
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.files.private_files import keep_files_private

DETACH = "--detach"


@with_options(ServiceOptions)
@with_options(TiererOptions, "tierer")
def up(
    context: typer.Context,
    options: ServiceOptions,
    tierer: TiererOptions,
    tierer_metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65_535,
            help="Port for the tierer's own metrics and health pages; 0 picks a free port. The log of the tierer names it.",
            rich_help_panel=METRICS_GROUP,
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option(DETACH, help="Return when the service is ready, and leave it running. `lakeward down` stops it.")
    ] = False,
) -> None:
    """Run everything on this machine: coordinator, tierer and embedded cluster on one data folder.

    With --fluss, it tiers the tables of an Apache Fluss cluster instead of the embedded cluster.

    Example: lakeward up --data ./lakeward-data --port 7707

    Example: lakeward up --data ./lakeward-data --detach
    """
    if detach:
        print(_detached(options.data, options.log_level))
        return
    from tiering.cli.processes.up import UpSettings, serve_up

    _ = tierer.stalled_after_ms  # refuses a wrong value before anything starts
    asyncio.run(serve_up(UpSettings(options.begin(context, Auth.TOKEN), tierer, tierer_metrics_port)))


def _detached(data: Path, log_level: str) -> str:
    """Starts this command without `--detach` in a child process, and returns its ready line. Raises SetupError."""
    from tiering.child_process import module_command
    from tiering.cli.processes.data_folder import open_data_folder
    from tiering.cli.processes.detached import UP_LOG, check_folder_is_free, start_detached

    configure_logging(log_level)
    keep_files_private()
    folder = open_data_folder(data)
    check_folder_is_free(folder)
    arguments = [word for word in sys.argv[1:] if word != DETACH]
    return start_detached(module_command("tiering.cli.main", *arguments), folder.logs / UP_LOG)
