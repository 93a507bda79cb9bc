"""The coordinator's options, one field each. The command line, `sys.options` and docs/options.md come from the fields. Durations are
milliseconds.

Options of the process (addresses, lake, cluster, identity) are in `tiering/cli/terminal/service_options.py`, those of a tierer in
`tiering/cli/terminal/options.py`, and those of a table in `tiering/lake/table_options.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import check_catalog_properties, public_properties
from tiering.model.option import check_limits, option
from tiering.model.tables import DEFAULT_LAKE_FORMAT

DAY_MS = 86_400_000


@dataclass(frozen=True)
class CoordinatorOptions:
    """The options of a coordinator. Their defaults suit production; tests use shorter timeouts. Raises InvalidArgument for a bad value."""

    # fmt: off
    service_timeout_ms: int = option(
        120_000, "A tierer that sends no heartbeat for this long loses its tables. The default is that of Fluss.",
        flag="--service-timeout-ms", unit="MS", group="Rounds", least=1,
    )
    long_poll_ms: int = option(
        30_000,
        "How long the coordinator holds a request for work at most. It always holds requests for less than a third of the service timeout.",
    )
    cancel_ms: int = option(
        4_000,
        "Time that the tierer of a cancelled round has to end it. Then the coordinator ends the round and ignores the tierer's results.",
    )
    tick_interval_ms: int = option(200, "How often the coordinator checks for due tables, timeouts and waiting calls.", least=1)
    discovery_interval_ms: int = option(
        1_000, "How often the coordinator compares the tables of the cluster with the tables that it knows.",
        least=1,
    )
    observe_interval_ms: int = option(5_000, "How often the coordinator reads log offsets in the background, for lag and pending records.")
    way_out_interval_ms: int = option(
        5_000,
        "How often the coordinator checks lake tables of permanently failed tables: whether they are repaired, else which statement helps.",
    )
    sweep_interval_ms: int = option(
        600_000,
        "How often the coordinator sweeps lake tables in the background: files of dead rounds and expired snapshots, old metadata files.",
        least=1,
    )
    upkeep_interval_ms: int = option(
        300_000, "Time between two upkeep rounds of a table, unless the first round left files to rewrite.",
        least=1,
    )
    upkeep_look_interval_ms: int = option(5_000, "How often the coordinator looks for tables that need upkeep.", least=1)
    backoff_min_ms: int = option(1_000, "Wait before the retry after a first failure.", least=1)
    backoff_max_ms: int = option(300_000, "Longest wait before a retry, after many failures in a row.")
    min_round_duration_ms: int = option(
        30_000, "Shortest time that a round may run before it stops early. A longer freshness of the table is the limit instead.",
    )
    backlog_duration_factor: int = option(
        10, "A round of a table in backlog may run for this many times the table's freshness (docs/backlog.md). Such rounds leave one slot "
        "of each tierer to other tables. 1: rounds of a backlog are like all other rounds.",
        flag="--backlog-duration-factor", unit="FACTOR", group="Rounds", least=1,
    )
    backlog_reset_after_ms: int = option(
        0, "A table with waiting rows that was not tiered for this long is in backlog again (docs/backlog.md). 0: ten times the table's "
        "freshness.",
        flag="--backlog-reset-after-ms", unit="MS", group="Rounds", least=0,
    )
    tierer_grace_ms: int = option(
        3_000, "How long a waiting CALL waits for a first tierer to connect before it reports that there is no tierer.",
    )
    stats_grace_ms: int = option(
        2_000, "How long a finished CALL waits for the statistics of its round, which come with the tierer's next heartbeat.",
    )
    inline_round_bytes: int = option(
        64 * 1024 * 1024, "Rounds of at most this many estimated bytes run inside the tierer process, without a Spark job.",
        flag="--inline-round-bytes", unit="BYTES", group="Rounds", least=0,
    )
    assigned_by_cluster: bool = option(False, "Whether the cluster assigns tables to tiering services (`tiering.cluster.assignments`).")
    held_tables: int = option(
        100,
        "With --fluss-mode shared: how many tables the service keeps from other tiering services while they are paused or in back-off. "
        "It hands the other tables back to Fluss.",
        flag="--fluss-held-tables", unit="COUNT", group="Apache Fluss", least=0,
    )
    relay_interval_ms: int = option(1_000, "How often the coordinator exchanges assignments with a cluster that assigns tables.")
    keep_rounds: int = option(
        200_000,
        "Most rounds of all tables that are kept, with their commits; about 2 KB each. Tables with the most rounds lose rounds first.",
        flag="--history-total-rounds", unit="COUNT", group="History", least=1,
    )
    keep_events: int = option(
        500_000, "Most events of all tables that are kept; about 700 bytes each. Tables with the most events lose events first.",
        flag="--history-total-events", unit="COUNT", group="History", least=1,
    )
    keep_table_rounds: int = option(
        5_000, "How many of the newest rounds of one table are kept, also after the table was dropped.",
        flag="--history-rounds", unit="COUNT", group="History", least=1,
    )
    keep_table_events: int = option(
        25_000, "How many of the newest events of one table are kept, also after the table was dropped.",
        flag="--history-events", unit="COUNT", group="History", least=1,
    )
    keep_history_ms: int = option(
        30 * DAY_MS, "How long rounds, commits, errors and events are kept. Those that have not ended yet are always kept.",
        flag="--history-age-ms", unit="MS", group="History", least=1,
    )
    keep_operations_ms: int = option(7 * DAY_MS, "How long the coordinator remembers an idempotency key with its operation.")
    forget_dropped_ms: int = option(
        3_600_000,
        "How long the record of a dropped table is kept. A table that the cluster lists again within this time keeps its epochs.",
    )
    publish: str | None = option(
        None,
        "Name of a second catalog in which lake tables are registered after each commit (docs/publish.md). "
        "PYICEBERG_CATALOG__NAME__... has its secrets. Default: none.",
        flag="--publish", unit="NAME", group="Lake",
    )
    cluster_kind: str = option("embedded", "Kind of the cluster that tierers connect to: a name in `tiering.cluster.registry`.")
    lake_format: str = option(DEFAULT_LAKE_FORMAT, "Format of the lake, which the coordinator reports to tierers.")
    # fmt: on
    cluster_properties: Mapping[str, str] = field(default_factory=dict)
    """Settings with which tierers connect to the cluster (`HostedCluster.properties`)."""
    lake_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the lake's catalog. The coordinator reports to tierers only those that `lake.catalog_properties` lists as public."""

    def __post_init__(self) -> None:
        check_limits(self)
        check_catalog_properties(self.lake_properties)
        if self.backoff_max_ms < self.backoff_min_ms:
            raise InvalidArgument(f"backoff_max_ms ({self.backoff_max_ms}) must not be less than backoff_min_ms ({self.backoff_min_ms})")

    @property
    def hold_ms(self) -> int:
        """How long the coordinator holds a long poll: less than a third of the service timeout (DESIGN 4)."""
        return min(self.long_poll_ms, self.service_timeout_ms // 3 - 1)

    @property
    def backlog_waits_apart(self) -> bool:
        """Whether tables in backlog have a queue of their own. They have none if their rounds are like all other rounds."""
        return self.backlog_duration_factor > 1

    def public_lake_properties(self) -> dict[str, str]:
        """Returns the properties of the lake that every caller may see, by a list of names. Tierers read secrets from their environment."""
        return public_properties(self.lake_properties)
