"""`lakeward demo`: shows the main job on real data."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from tiering.cli.spark.java import require_java
from tiering.cli.terminal.consoles import orderly_end
from tiering.errors import InvalidArgument


def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Data folder. Default: a new folder below ./lakeward-demo; with --fluss a temporary folder, removed at the end.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", help="Port of the service; 0 picks a free port.")] = 0,
    fluss: Annotated[
        bool, typer.Option("--fluss", help="Start an Apache Fluss cluster on this machine, show the job on it, and stop it.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the service and its console running at the end.")] = False,
) -> None:
    """Show the main job on real data, in about a minute.

    Example: lakeward demo --data /tmp/lakeward-demo
    """
    if keep and fluss:
        raise InvalidArgument("--keep and --fluss exclude each other: the demo's Fluss cluster ends with it", hint="Leave one of them out.")
    require_java()
    started = time.monotonic()
    console = Console(soft_wrap=True)
    with orderly_end() as parts:
        is_proved = _show_fluss(parts, console, data, port) if fluss else _show(parts, console, data, port, keep)
    console.print(f"\n{'Everything held' if is_proved else 'SOMETHING DIFFERED'}, in {time.monotonic() - started:.0f} s.", highlight=False)
    raise typer.Exit(0 if is_proved else 1)


def _show(parts: ExitStack, console: Console, data: Path | None, port: int, keep: bool) -> bool:
    from tiering.cli.demo.stage import open_stage
    from tiering.cli.demo.story import INLINE_ROUND_BYTES, tell

    folder = data or Path("lakeward-demo") / datetime.now().strftime("demo-%Y%m%d-%H%M%S")
    console.print(f"[bold]Lakeward demo[/] in {folder}: starting the service and Spark ...", highlight=False)
    stage = parts.enter_context(open_stage(console, folder, port, ("--inline-round-bytes", str(INLINE_ROUND_BYTES)), keep=keep))
    is_proved = tell(stage)
    parts.close()
    console.print(_next_steps(folder, stage.service.uri) if keep else _go_on(folder), highlight=False)
    return is_proved


def _show_fluss(parts: ExitStack, console: Console, data: Path | None, port: int) -> bool:
    from tiering.cli.demo.fluss_story import open_fluss_stage, tell

    folder = data or Path(parts.enter_context(TemporaryDirectory(prefix="lakeward-fluss-demo-", ignore_cleanup_errors=True)))
    console.print(f"[bold]Lakeward demo[/] in {folder}: starting Apache Fluss, the service and Spark ...", highlight=False)
    is_proved = tell(parts.enter_context(open_fluss_stage(console, folder.expanduser().resolve(), port)))
    parts.close()
    left = "nothing of it is left" if data is None else f"what they wrote is in {folder}"
    console.print(f"\nZooKeeper, Fluss and the service were stopped; {left}.", highlight=False)
    return is_proved


def _next_steps(folder: Path, uri: str) -> str:
    return f"""
[bold cyan]-- The service and its console are running[/] (data and logs are in {folder})
  lakeward console --uri {uri}
  lakeward status --uri {uri}
  lakeward down --data {folder}   stops both"""


def _go_on(folder: Path) -> str:
    return f"""
[bold cyan]-- Continue by hand[/] (the service was stopped, its data is in {folder})
  lakeward up --data {folder} --detach
  lakeward status
  lakeward tier nyc.flights
  lakeward spark-conf > fluss.conf && spark-sql --properties-file fluss.conf -e 'SELECT * FROM fluss.sys.lake_tiering_status'
  lakeward lake-conf --for pyiceberg
  lakeward down --data {folder} && rm -r {folder}"""
