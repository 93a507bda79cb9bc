"""`lakeward coordinator`: runs the coordinator and the embedded cluster, to which tierers connect."""

from __future__ import annotations

import asyncio

import typer

from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.service_options import ServiceOptions


@with_options(ServiceOptions)
def coordinator(context: typer.Context, options: ServiceOptions) -> None:
    """Run the coordinator and the embedded cluster. Tierers connect to it.

    With --fluss, it tiers the tables of an Apache Fluss cluster instead of the embedded cluster.

    Example: lakeward coordinator --data ./lakeward-data --port 7707
    """
    from tiering.cli.processes.coordinator import serve_coordinator

    asyncio.run(serve_coordinator(options.begin(context)))
