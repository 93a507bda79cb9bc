"""`lakeward up`: coordinator, tierer and embedded cluster on one data folder, as one process tree."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

from tiering.cli.terminal.cluster_options import FlussClusterIdOption, FlussModeOption, FlussOption, read_cluster
from tiering.cli.terminal.lake_options import OTHER_OPTIONS, CreateLakeTablesOption, FlussConfOption, read_lake
from tiering.cli.terminal.logs import configure_logging
from tiering.cli.terminal.options import (
    DEFAULT_SLOTS,
    ConfOption,
    DataOption,
    HistoryAgeOption,
    HistoryEventsOption,
    HistoryRoundsOption,
    HistoryTotalEventsOption,
    HistoryTotalRoundsOption,
    HostOption,
    InlineOption,
    InsecureOption,
    LakePropertyOption,
    LogLevelOption,
    MasterOption,
    PortOption,
    SlotsOption,
    TimeoutOption,
)
from tiering.coordinator.options import CoordinatorOptions
from tiering.files.private_files import keep_files_private
from tiering.wire.channel import DEFAULT_PORT

_DEFAULTS = CoordinatorOptions()


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("up", context_settings=OTHER_OPTIONS)(up)


def up(
    context: typer.Context,
    data: DataOption = Path("lakeward-data"),
    port: PortOption = DEFAULT_PORT,
    host: HostOption = "127.0.0.1",
    service_timeout_ms: TimeoutOption = _DEFAULTS.service_timeout_ms,
    inline_round_bytes: InlineOption = _DEFAULTS.inline_round_bytes,
    keep_history_ms: HistoryAgeOption = _DEFAULTS.keep_history_ms,
    keep_table_rounds: HistoryRoundsOption = _DEFAULTS.keep_table_rounds,
    keep_table_events: HistoryEventsOption = _DEFAULTS.keep_table_events,
    keep_rounds: HistoryTotalRoundsOption = _DEFAULTS.keep_rounds,
    keep_events: HistoryTotalEventsOption = _DEFAULTS.keep_events,
    lake_property: LakePropertyOption = None,
    fluss: FlussOption = None,
    fluss_cluster_id: FlussClusterIdOption = None,
    fluss_mode: FlussModeOption = None,
    fluss_conf: FlussConfOption = None,
    create_lake_tables: CreateLakeTablesOption = False,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    slots: SlotsOption = DEFAULT_SLOTS,
    insecure: InsecureOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Run everything on this machine: coordinator, tierer and embedded cluster on one data folder.

    With --fluss the tables are those of an Apache Fluss cluster that runs elsewhere.

    Example: lakeward up --data ./lakeward-data --port 7707
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.processes.coordinator import CoordinatorSettings, KeptHistory
    from tiering.cli.processes.up import UpSettings, serve_up

    configure_logging(log_level)
    keep_files_private()
    cluster_kind, cluster_settings = read_cluster(fluss, fluss_cluster_id, fluss_mode)
    lake_properties = read_lake(context, lake_property, fluss_conf)
    settings = CoordinatorSettings(
        data,
        host,
        port,
        service_timeout_ms,
        inline_round_bytes,
        lake_properties,
        insecure,
        create_lake_tables,
        cluster_kind,
        cluster_settings,
        KeptHistory(keep_history_ms, keep_table_rounds, keep_table_events, keep_rounds, keep_events),
    )
    asyncio.run(serve_up(UpSettings(settings, master, slots, conf or [], log_level)))
