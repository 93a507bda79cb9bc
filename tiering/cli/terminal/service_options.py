"""The options of a service, for `lakeward coordinator` and `lakeward up`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tiering.access.oidc_settings import OidcSettings
from tiering.cli.terminal.access_options import (
    AlgorithmOption,
    AudienceOption,
    AuditLogOption,
    Auth,
    AuthOption,
    ClientCaOption,
    GroupsClaimOption,
    InsecureOption,
    IssuerOption,
    JwksOption,
    PolicyOption,
    PrincipalClaimOption,
    ServerCertOption,
    ServerKeyOption,
    TokensOption,
)
from tiering.cli.terminal.cluster_options import (
    FlussAutoCompactionOption,
    FlussAutoExpireOption,
    FlussClusterIdOption,
    FlussHeldTablesOption,
    FlussModeOption,
    FlussOption,
    read_cluster,
    read_storage,
)
from tiering.cli.terminal.lake_options import CreateLakeTablesOption, FlussConfOption, read_lake
from tiering.cli.terminal.logs import LogFormat, configure_logging
from tiering.cli.terminal.options import (
    AdvertiseOption,
    BacklogFactorOption,
    BacklogResetOption,
    DataOption,
    HistoryAgeOption,
    HistoryEventsOption,
    HistoryRoundsOption,
    HistoryTotalEventsOption,
    HistoryTotalRoundsOption,
    HostOption,
    InlineOption,
    LakePropertyOption,
    LogFormatOption,
    LogLevelOption,
    MetricsHostOption,
    MetricsPortOption,
    MetricsTablesOption,
    PortOption,
    StateOption,
    TimeoutOption,
)
from tiering.cluster.fluss.settings import UpkeepDefaults
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import InvalidArgument
from tiering.files.private_files import keep_files_private
from tiering.model.tables import DEFAULT_LAKE_FORMAT
from tiering.telemetry.metrics import DEFAULT_TABLES
from tiering.wire.channel import DEFAULT_PORT

if TYPE_CHECKING:
    from tiering.cli.processes.coordinator import CoordinatorSettings
    from tiering.cli.processes.service_access import AccessSettings
    from tiering.wire.security.server_tls import ServerTls

_DEFAULTS = CoordinatorOptions()


@dataclass(frozen=True)
class ServiceOptions:
    """Values of the options of a service. A help page shows the groups of options in the order in which they come first here."""

    data: DataOption = Path("lakeward-data")
    port: PortOption = DEFAULT_PORT
    host: HostOption = "127.0.0.1"
    lake_property: LakePropertyOption = None
    fluss: FlussOption = None
    auth: AuthOption = None
    log_level: LogLevelOption = "info"
    fluss_cluster_id: FlussClusterIdOption = None
    fluss_mode: FlussModeOption = None
    fluss_conf: FlussConfOption = None
    fluss_held_tables: FlussHeldTablesOption = _DEFAULTS.held_tables
    fluss_auto_compaction: FlussAutoCompactionOption = False
    fluss_auto_expire_snapshot: FlussAutoExpireOption = False
    create_lake_tables: CreateLakeTablesOption = False
    inline_round_bytes: InlineOption = _DEFAULTS.inline_round_bytes
    service_timeout_ms: TimeoutOption = _DEFAULTS.service_timeout_ms
    backlog_reset_after_ms: BacklogResetOption = _DEFAULTS.backlog_reset_after_ms
    backlog_duration_factor: BacklogFactorOption = _DEFAULTS.backlog_duration_factor
    server_cert: ServerCertOption = None
    server_key: ServerKeyOption = None
    client_ca: ClientCaOption = None
    tokens: TokensOption = None
    insecure: InsecureOption = False
    oidc_issuer: IssuerOption = None
    oidc_audience: AudienceOption = None
    oidc_jwks: JwksOption = None
    oidc_principal: PrincipalClaimOption = OidcSettings.principal
    oidc_groups: GroupsClaimOption = OidcSettings.groups
    oidc_algorithm: AlgorithmOption = None
    policy: PolicyOption = None
    audit_log: AuditLogOption = None
    state: StateOption = None
    advertise: AdvertiseOption = None
    keep_history_ms: HistoryAgeOption = _DEFAULTS.keep_history_ms
    keep_table_rounds: HistoryRoundsOption = _DEFAULTS.keep_table_rounds
    keep_table_events: HistoryEventsOption = _DEFAULTS.keep_table_events
    keep_rounds: HistoryTotalRoundsOption = _DEFAULTS.keep_rounds
    keep_events: HistoryTotalEventsOption = _DEFAULTS.keep_events
    metrics_port: MetricsPortOption = None
    metrics_host: MetricsHostOption = "127.0.0.1"
    metrics_tables: MetricsTablesOption = DEFAULT_TABLES
    log_format: LogFormatOption = LogFormat.CONSOLE

    def begin(self, context: typer.Context, default_auth: Auth = Auth.NONE) -> CoordinatorSettings:
        """Sets up logs and file permissions of this process, and returns the settings of the coordinator.

        `context` has the `--datalake.*` options; `default_auth` is used without `--auth`. Raises InvalidArgument, SetupError.
        """
        # Imported here: other commands and help pages do not need these modules, and would start later.
        from tiering.cli.processes.coordinator import BacklogRounds, CoordinatorSettings, KeptHistory
        from tiering.cli.processes.grants import GrantSettings
        from tiering.cli.processes.monitoring import MonitoringSettings
        from tiering.coordinator.memory.sql_schema import postgresql_url

        configure_logging(self.log_level, self.log_format)
        keep_files_private()
        upkeep = UpkeepDefaults(self.fluss_auto_compaction, self.fluss_auto_expire_snapshot)
        cluster_kind, cluster_settings = read_cluster(self.fluss, self.fluss_cluster_id, self.fluss_mode, upkeep)
        if self.fluss is not None:
            cluster_settings |= read_storage(self.fluss_conf)
        lake = read_lake(context, self.lake_property, self.fluss_conf)
        return CoordinatorSettings(
            self.data,
            self.host,
            self.port,
            self.service_timeout_ms,
            self.inline_round_bytes,
            None if lake is None else lake.properties,
            self.insecure,
            self.create_lake_tables,
            cluster_kind,
            cluster_settings,
            self.fluss_held_tables,
            KeptHistory(self.keep_history_ms, self.keep_table_rounds, self.keep_table_events, self.keep_rounds, self.keep_events),
            MonitoringSettings(self.metrics_port, self.metrics_host, self.metrics_tables),
            BacklogRounds(self.backlog_reset_after_ms, self.backlog_duration_factor),
            DEFAULT_LAKE_FORMAT if lake is None else lake.format or DEFAULT_LAKE_FORMAT,
            self._access(self.auth or default_auth),
            None if self.state is None else postgresql_url(self.state),
            self.advertise,
            GrantSettings(self.policy, self.audit_log),
        )

    def _access(self, auth: Auth) -> AccessSettings:
        from tiering.cli.processes.service_access import AccessSettings

        return AccessSettings(auth, self.tokens, self._tls(), self._oidc())

    def _tls(self) -> ServerTls | None:
        """Returns the files of TLS, or None without TLS. Raises InvalidArgument for an option without another one that it needs."""
        if self.server_cert is None or self.server_key is None:
            if (self.server_cert, self.server_key, self.client_ca) != (None, None, None):
                raise InvalidArgument("TLS needs --server-cert and --server-key", hint="Name both files.")
            if self.auth is Auth.MTLS:
                raise InvalidArgument("mTLS needs TLS", hint="Name --server-cert, --server-key and --client-ca.")
            return None
        if self.auth is Auth.MTLS and self.client_ca is None:
            raise InvalidArgument("mTLS needs --client-ca", hint="Name the file with the certificate authorities of client certificates.")
        from tiering.wire.security.server_tls import ServerTls

        return ServerTls(self.server_cert, self.server_key, self.client_ca)

    def _oidc(self) -> OidcSettings | None:
        if self.auth is not Auth.OIDC:
            return None
        if not (self.oidc_issuer and self.oidc_audience and self.oidc_jwks):
            raise InvalidArgument("OIDC needs --oidc-issuer, --oidc-audience and --oidc-jwks", hint="Name all three.")
        algorithms = self.oidc_algorithm or OidcSettings.algorithms
        return OidcSettings(self.oidc_issuer, self.oidc_audience, self.oidc_jwks, self.oidc_principal, self.oidc_groups, tuple(algorithms))
