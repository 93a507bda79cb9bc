"""`lakeward up`, `lakeward coordinator`, `lakeward tierer`: the long-running parts.

What they run is imported by each: other commands, and the help, do without.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.terminal.logs import configure_logging
from tiering.cli.terminal.options import DEFAULT_SLOTS, DEFAULT_URI, LogLevelOption, UriOption, read_pairs
from tiering.coordinator.options import CoordinatorOptions
from tiering.files.private_files import keep_files_private
from tiering.wire.channel import DEFAULT_PORT

DataOption = Annotated[Path, typer.Option("--data", help="The data folder; made if need be.")]
PortOption = Annotated[int, typer.Option(min=0, max=65_535, help="0 picks a free one.")]
HostOption = Annotated[str, typer.Option(help="Address to listen on, such as 127.0.0.1 or ::1.")]
TimeoutOption = Annotated[int, typer.Option(min=1, help="A tierer silent for this long has lost its tables.")]
InlineOption = Annotated[int, typer.Option(min=0, help="Rounds of at most this many estimated bytes need no Spark job.")]
LakePropertyOption = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE of the lake's catalog, as pyiceberg takes them; repeat it. Default: a SQL catalog in the data folder."),
]
MasterOption = Annotated[str, typer.Option(help="Spark master of the tierer: local[N], spark://..., yarn, k8s://...")]
ConfOption = Annotated[list[str] | None, typer.Option("--conf", help="NAME=VALUE for the tierer's Spark; repeat it.")]
SlotsOption = Annotated[int, typer.Option(min=1, help="Tables the tierer moves at a time.")]

_DEFAULTS = CoordinatorOptions()


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("up")(up)
    app.command("coordinator")(coordinator)
    app.command("tierer")(tierer)


def up(
    data: DataOption = Path("lakeward-data"),
    port: PortOption = DEFAULT_PORT,
    host: HostOption = "127.0.0.1",
    service_timeout_ms: TimeoutOption = _DEFAULTS.service_timeout_ms,
    inline_round_bytes: InlineOption = _DEFAULTS.inline_round_bytes,
    lake_property: LakePropertyOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    slots: SlotsOption = DEFAULT_SLOTS,
    insecure: Annotated[bool, typer.Option(help="Listen off loopback although nothing is encrypted or checked.")] = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Run everything on this machine: coordinator, tierer and embedded cluster on one data folder.

    Example: lakeward up --data ./lakeward-data --port 7707
    """
    from tiering.cli.processes.coordinator import CoordinatorSettings
    from tiering.cli.processes.up import UpSettings, serve_up

    configure_logging(log_level)
    keep_files_private()
    settings = CoordinatorSettings(data, host, port, service_timeout_ms, inline_round_bytes, _lake_properties(lake_property), insecure)
    asyncio.run(serve_up(UpSettings(settings, master, slots, conf or [], log_level)))


def coordinator(
    data: DataOption = Path("lakeward-data"),
    port: PortOption = DEFAULT_PORT,
    host: HostOption = "127.0.0.1",
    service_timeout_ms: TimeoutOption = _DEFAULTS.service_timeout_ms,
    inline_round_bytes: InlineOption = _DEFAULTS.inline_round_bytes,
    lake_property: LakePropertyOption = None,
    insecure: Annotated[bool, typer.Option(help="Listen off loopback although nothing is encrypted or checked.")] = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Run the coordinator and the embedded cluster; tierers connect to it.

    Example: lakeward coordinator --data ./lakeward-data --port 7707
    """
    from tiering.cli.processes.coordinator import CoordinatorSettings, serve_coordinator

    configure_logging(log_level)
    keep_files_private()
    settings = CoordinatorSettings(data, host, port, service_timeout_ms, inline_round_bytes, _lake_properties(lake_property), insecure)
    asyncio.run(serve_coordinator(settings))


def tierer(
    uri: UriOption = DEFAULT_URI,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    slots: SlotsOption = DEFAULT_SLOTS,
    tierer_id: Annotated[str | None, typer.Option(help="Its name in the system tables; made up by default.")] = None,
    parent_pid: Annotated[int | None, typer.Option(hidden=True)] = None,
    log_level: LogLevelOption = "info",
) -> None:
    """Run a tierer: a Spark driver that moves tables into the lake.

    Example: lakeward tierer --uri coordinator-host:7707 --master spark://spark-host:7077
    """
    from tiering.cli.processes.tierer import TiererSettings, run_tierer

    configure_logging(log_level)
    keep_files_private()
    run_tierer(TiererSettings(uri, master, slots, tierer_id, read_pairs(conf or [], "--conf"), parent_pid))


def _lake_properties(pairs: list[str] | None) -> dict[str, str] | None:
    return read_pairs(pairs, "--lake-property") if pairs else None
