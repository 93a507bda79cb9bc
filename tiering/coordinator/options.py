"""The coordinator's options. Durations are milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import check_catalog_properties, public_properties
from tiering.model.tables import DEFAULT_LAKE_FORMAT

DAY_MS = 86_400_000

_INTERVALS = ("upkeep_interval_ms", "upkeep_look_interval_ms")
_BOUNDS = ("keep_rounds", "keep_events", "keep_table_rounds", "keep_table_events", "keep_history_ms")


@dataclass(frozen=True)
class CoordinatorOptions:
    """The options of a coordinator. Their defaults suit production; tests use shorter timeouts. Raises InvalidArgument for a bad value."""

    service_timeout_ms: int = 120_000
    """A tierer that sends no heartbeat for this long loses its tables. The default is that of Fluss."""

    long_poll_ms: int = 30_000
    """How long the coordinator holds a request for work at most. It always holds requests for less than a third of the service timeout."""

    cancel_ms: int = 4_000
    """Time that the tierer of a cancelled round has to end it. Then the coordinator ends the round and ignores the tierer's results."""

    tick_interval_ms: int = 200
    """How often the coordinator checks for due tables, timeouts and waiting calls."""

    discovery_interval_ms: int = 1_000
    """How often the coordinator compares the tables of the cluster with the tables that it knows."""

    observe_interval_ms: int = 5_000
    """How often the coordinator reads log offsets in the background, for lag and pending records."""

    way_out_interval_ms: int = 5_000
    """How often the coordinator checks lake tables of permanently failed tables: whether they are repaired, else which statement helps."""

    sweep_interval_ms: int = 600_000
    """How often the coordinator sweeps lake tables in the background: files of dead rounds and expired snapshots, old metadata files."""

    upkeep_interval_ms: int = 300_000
    """Time between two upkeep rounds of a table, unless the first round left files to rewrite."""

    upkeep_look_interval_ms: int = 5_000
    """How often the coordinator looks for tables that need upkeep."""

    backoff_min_ms: int = 1_000
    """Wait before the retry after a first failure."""

    backoff_max_ms: int = 300_000
    """Longest wait before a retry, after many failures in a row."""

    min_round_duration_ms: int = 30_000
    """Shortest time that a round may run before it stops early. A longer freshness of the table is the limit instead."""

    backlog_duration_factor: int = 10
    """A round of a table in backlog may run for this many times the table's freshness. Such rounds leave one slot of each tierer to other
    tables. 1: rounds of a backlog are like all other rounds."""

    backlog_reset_after_ms: int = 0
    """A table with waiting rows that was not tiered for this long is in backlog again. 0: ten times the table's freshness."""

    tierer_grace_ms: int = 3_000
    """How long a waiting CALL waits for a first tierer to connect before it reports that there is no tierer."""

    stats_grace_ms: int = 2_000
    """How long a finished CALL waits for the statistics of its round, which come with the tierer's next heartbeat."""

    inline_round_bytes: int = 64 * 1024 * 1024
    """Rounds of at most this many estimated bytes run inside the tierer process, without a Spark job."""

    assigned_by_cluster: bool = False
    """Whether the cluster assigns tables to tiering services (`tiering.cluster.assignments`)."""

    held_tables: int = 100
    """Most assigned tables that the coordinator keeps while they are paused or in back-off. It hands the others back to the cluster."""

    relay_interval_ms: int = 1_000
    """How often the coordinator exchanges assignments with a cluster that assigns tables."""

    keep_rounds: int = 200_000
    """Most rounds of all tables that are kept, with their commits; about 2 KB each. Tables with the most rounds lose rounds first."""

    keep_events: int = 500_000
    """Most events of all tables that are kept; about 700 bytes each. Tables with the most events lose events first."""

    keep_table_rounds: int = 5_000
    """How many of the newest rounds of one table are kept, also after the table was dropped."""

    keep_table_events: int = 25_000
    """How many of the newest events of one table are kept, also after the table was dropped."""

    keep_history_ms: int = 30 * DAY_MS
    """How long rounds, commits, errors and events are kept. Those that have not ended yet are always kept."""

    keep_operations_ms: int = 7 * DAY_MS
    """How long the coordinator remembers an idempotency key with its operation (DESIGN 5)."""

    forget_dropped_ms: int = 3_600_000
    """How long the record of a dropped table is kept. A table that the cluster lists again within this time keeps its epochs."""

    cluster_kind: str = "embedded"
    """Kind of the cluster that tierers connect to: a name in `tiering.cluster.registry`."""

    cluster_properties: Mapping[str, str] = field(default_factory=dict)
    """Settings with which tierers connect to the cluster (`HostedCluster.properties`)."""

    lake_format: str = DEFAULT_LAKE_FORMAT
    """Format of the lake, which the coordinator reports to tierers."""

    lake_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the lake's catalog. The coordinator reports to tierers only those that `lake.catalog_properties` lists as public."""

    def __post_init__(self) -> None:
        for name in (
            "service_timeout_ms",
            "tick_interval_ms",
            "discovery_interval_ms",
            "sweep_interval_ms",
            "backoff_min_ms",
            *_INTERVALS,
            *_BOUNDS,
        ):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"the option {name} must be greater than 0, not {getattr(self, name)}")
        if self.backlog_duration_factor < 1 or self.backlog_reset_after_ms < 0:
            raise InvalidArgument(
                f"backlog_duration_factor ({self.backlog_duration_factor}) must be at least 1, and backlog_reset_after_ms "
                f"({self.backlog_reset_after_ms}) must not be negative"
            )
        if self.held_tables < 0:
            raise InvalidArgument(f"the option held_tables must not be negative, but is {self.held_tables}")
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
