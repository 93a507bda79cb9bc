"""`lakeward demo`."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tiering.cli.spark.java import require_java


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo")(demo)


def demo(
    data: Annotated[Path | None, typer.Option(help="Data folder; a new one under ./lakeward-data by default.")] = None,
    port: Annotated[int, typer.Option(help="Port of the service; 0 picks a free one.")] = 0,
) -> None:
    """Show the main job on real data, in under two minutes.

    Example: lakeward demo --data /tmp/lakeward-demo
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.demo.story import open_stage, tell

    require_java()
    started = time.monotonic()
    console = Console(soft_wrap=True)
    folder = data or Path("lakeward-data") / datetime.now().strftime("demo-%Y%m%d-%H%M%S")
    console.print(f"[bold]Lakeward demo[/] in {folder}: starting the service and Spark ...", highlight=False)
    with open_stage(console, folder, port) as stage:
        held = tell(stage)
    console.print(_go_on(folder), highlight=False)
    console.print(f"\n{'Everything held' if held else 'SOMETHING DIFFERED'}, in {time.monotonic() - started:.0f} s.", highlight=False)
    raise typer.Exit(0 if held else 1)


def _go_on(folder: Path) -> str:
    return f"""
[bold cyan]-- Go on by hand[/] (the service was stopped, its data is in {folder})
  lakeward up --data {folder} --port 7707 &
  lakeward status
  lakeward tier nyc.flights
  lakeward spark-conf > fluss.conf && spark-sql --properties-file fluss.conf -e 'SELECT * FROM fluss.sys.lake_tiering_status'
  lakeward lake-conf --for pyiceberg
  rm -r {folder}"""
