"""The options of a service, for `lakeward coordinator` and `lakeward up`. The processes take them as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from tiering.cli.terminal.access_options import AccessOptions, Auth, GrantOptions
from tiering.cli.terminal.cluster_options import (
    FLUSS_GROUP,
    PASSWORD,
    FlussClusterIdOption,
    FlussModeOption,
    read_cluster,
    read_storage,
)
from tiering.cli.terminal.console_options import ConsoleOptions
from tiering.cli.terminal.lake_options import FlussConfOption, read_lake
from tiering.cli.terminal.logs import LogFormat, configure_logging
from tiering.cli.terminal.options import (
    METRICS_GROUP,
    DataOption,
    LakePropertyOption,
    LineageOptions,
    LogFormatOption,
    LogLevelOption,
    MetricsAddress,
    PublishPropertyOption,
)
from tiering.cluster.fluss.settings import UpkeepDefaults
from tiering.coordinator.options import CoordinatorOptions
from tiering.files.private_files import keep_files_private
from tiering.model.option import option
from tiering.telemetry.metrics import DEFAULT_TABLES
from tiering.wire.channel import DEFAULT_PORT

_STATE = "State and standby"


@dataclass(frozen=True)
class ServiceOptions:
    """Values of the options of a service. A help page shows the groups of options in the order in which they come first here."""

    # fmt: off
    data: DataOption = Path("lakeward-data")
    port: int = option(
        DEFAULT_PORT, "Port to listen on; 0 picks a free port.",
        flag="--port", unit="PORT", variable="LAKEWARD_PORT", least=0, most=65_535,
    )
    host: str = option("127.0.0.1", "Address to listen on, such as 127.0.0.1 or ::1.", flag="--host", unit="ADDRESS")
    lake_property: LakePropertyOption = None
    publish_property: PublishPropertyOption = None
    fluss: str | None = option(
        None, f"Servers of the Apache Fluss cluster to tier from. Default: the embedded cluster. {PASSWORD}",
        flag="--fluss", unit="HOST:PORT,...",
    )
    fluss_cluster_id: FlussClusterIdOption = None
    fluss_mode: FlussModeOption = None
    fluss_conf: FlussConfOption = None
    fluss_auto_compaction: bool = option(
        False,
        "Rewrite small lake files of Fluss tables that do not set table.datalake.auto-compaction. Without this option Fluss's default "
        "holds: small files stay.",
        flag="--fluss-auto-compaction", group=FLUSS_GROUP,
    )
    fluss_auto_expire_snapshot: bool = option(
        False,
        "Expire lake snapshots of Fluss tables that do not set table.datalake.auto-expire-snapshot. Without this option Fluss's "
        "default holds: snapshots stay.",
        flag="--fluss-auto-expire-snapshot", group=FLUSS_GROUP,
    )
    create_lake_tables: bool = option(
        False,
        "Start with a lake that has none of the tables that the cluster reports as tiered. Without this option the service refuses "
        "such a lake.",
        flag="--create-lake-tables", group="Lake",
    )
    coordinator: CoordinatorOptions = field(default_factory=CoordinatorOptions)
    access: AccessOptions = field(default_factory=AccessOptions)
    log_level: LogLevelOption = "info"
    grants: GrantOptions = field(default_factory=GrantOptions)
    state: str | None = option(
        None,
        "Keep the state in PostgreSQL: postgresql://user@host/database, with the password in PGPASSWORD or ~/.pgpass. A second "
        "coordinator with the same --state is a standby. Default: a file in the data folder.",
        flag="--state", unit="URL", variable="LAKEWARD_STATE", group=_STATE, is_shown=False,
    )
    advertise: str | None = option(
        None, "Address at which other coordinators with the same --state reach this one.",
        flag="--advertise", unit="HOST:PORT", group=_STATE,
    )
    metrics: MetricsAddress = field(default_factory=MetricsAddress)
    metrics_tables: int = option(
        DEFAULT_TABLES, "Most tables that have metrics of their own. Tables that fail or are behind come first.",
        flag="--metrics-tables", unit="COUNT", group=METRICS_GROUP, least=0,
    )
    console: ConsoleOptions = field(default_factory=ConsoleOptions)
    lineage: LineageOptions = field(default_factory=LineageOptions)
    log_format: LogFormatOption = LogFormat.CONSOLE
    # fmt: on
    cluster_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings for `host` of the cluster kind, which `begin` reads from the options of Fluss."""

    def begin(self, context: typer.Context, default_auth: Auth = Auth.NONE) -> ServiceOptions:
        """Sets up logs and file permissions of this process, and returns the options with the lake and the cluster that they name.

        `context` has the `--datalake.*` options; `default_auth` is used without `--auth`. Raises InvalidArgument, SetupError.
        """
        # Imported here: other commands and help pages do not need this module, and would start later.
        from tiering.coordinator.memory.sql_schema import postgresql_url

        configure_logging(self.log_level, self.log_format)
        keep_files_private()
        upkeep = UpkeepDefaults(self.fluss_auto_compaction, self.fluss_auto_expire_snapshot)
        cluster_kind, cluster_settings = read_cluster(self.fluss, self.fluss_cluster_id, self.fluss_mode, upkeep)
        if self.fluss is not None:
            cluster_settings |= read_storage(self.fluss_conf)
        coordinator = replace(self.coordinator, cluster_kind=cluster_kind)
        if (lake := read_lake(context, self.lake_property, self.fluss_conf)) is not None:
            coordinator = replace(coordinator, lake_properties=lake.properties, lake_format=lake.format or coordinator.lake_format)
        access = replace(self.access, auth=self.access.auth or default_auth)
        access.check()
        console = self.console.begin(self.port, access, is_on=default_auth is not Auth.NONE)
        state = None if self.state is None else postgresql_url(self.state)
        return replace(self, coordinator=coordinator, cluster_settings=cluster_settings, access=access, console=console, state=state)
