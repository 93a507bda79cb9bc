"""`lakeward coordinator`: the coordinator and the embedded cluster; tierers connect to it."""

from __future__ import annotations

import asyncio

import typer

from tiering.cli.terminal.lake_options import OTHER_OPTIONS
from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.service_options import ServiceOptions


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("coordinator", context_settings=OTHER_OPTIONS)(coordinator)


@with_options(ServiceOptions)
def coordinator(context: typer.Context, options: ServiceOptions) -> None:
    """Run the coordinator and the embedded cluster; tierers connect to it.

    With --fluss the tables are those of an Apache Fluss cluster that runs elsewhere.

    Example: lakeward coordinator --data ./lakeward-data --port 7707
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.processes.coordinator import serve_coordinator

    asyncio.run(serve_coordinator(options.begin(context)))
