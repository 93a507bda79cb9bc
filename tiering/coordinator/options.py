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
    """All of them have defaults that suit production; tests shorten the time-outs. Raises InvalidArgument for a value that cannot be."""

    service_timeout_ms: int = 120_000
    """A tierer that is silent for this long has lost its tables (Fluss's default)."""

    long_poll_ms: int = 30_000
    """How long a request for work is held at most; never a third of the service timeout or more."""

    cancel_ms: int = 4_000
    """How long the tierer of a cancelled round has to end it; then it is over here, and what the tierer still does counts for nothing."""

    tick_interval_ms: int = 200
    """How often due tables, time-outs and waiting calls are looked at."""

    discovery_interval_ms: int = 1_000
    """How often the cluster's tables are compared with the ones known here."""

    observe_interval_ms: int = 5_000
    """How often log offsets are observed in the background, for lag and pending records."""

    way_out_interval_ms: int = 5_000
    """How often the lake tables of tables that failed for good are looked at: which statement helps, and whether it was mended."""

    sweep_interval_ms: int = 600_000
    """How often lake tables are swept in the background: files of dead rounds and of expired snapshots, old metadata files."""

    upkeep_interval_ms: int = 300_000
    """The time between two upkeep rounds of a table, unless the first one left files to be rewritten."""

    upkeep_look_interval_ms: int = 5_000
    """How often the tables that need upkeep are looked up."""

    backoff_min_ms: int = 1_000
    """Wait after a first failure."""

    backoff_max_ms: int = 300_000
    """Longest wait after many failures in a row."""

    min_round_duration_ms: int = 30_000
    """A round may run for the table's freshness, and at least for this long, before it stops early."""

    backlog_duration_factor: int = 10
    """A round of a table in backlog may run for so many times the table's freshness; such rounds leave a slot of each tierer to the others.
    1 = rounds of a backlog are as all others."""

    backlog_reset_after_ms: int = 0
    """A table of which rows wait, and that was not tiered for this long, is in backlog again; 0 = for ten times its freshness."""

    tierer_grace_ms: int = 3_000
    """How long a waiting CALL waits for a first tierer to connect before it says that there is none."""

    stats_grace_ms: int = 2_000
    """How long a CALL that is done waits for the round's statistics, which come with the tierer's next heartbeat."""

    inline_round_bytes: int = 64 * 1024 * 1024
    """Rounds of at most this many estimated bytes run in the tierer's process, without a Spark job."""

    assigned_by_cluster: bool = False
    """Whether the cluster says whose turn it is with a table (`tiering.cluster.assignments`): the coordinator takes it from there."""

    held_tables: int = 100
    """How many tables that the cluster assigned are kept without a round, paused or in back-off; the others go back to it."""

    relay_interval_ms: int = 1_000
    """How often the cluster is told and asked, where it assigns tables."""

    keep_rounds: int = 200_000
    """Rounds of all tables that are kept, with what they committed; some 2 KB each. Tables with many rounds make room for the others."""

    keep_events: int = 500_000
    """Events of all tables that are kept; some 700 bytes each. Tables with many events make room for the others."""

    keep_table_rounds: int = 5_000
    """Newest rounds of one table that are kept, also of one that was dropped."""

    keep_table_events: int = 25_000
    """Newest events of one table that are kept, also of one that was dropped."""

    keep_history_ms: int = 30 * DAY_MS
    """For how long rounds, commits, errors and events are kept. What is not over yet is always kept."""

    keep_operations_ms: int = 7 * DAY_MS
    """How long an idempotency key names its operation (DESIGN 5)."""

    forget_dropped_ms: int = 3_600_000
    """How long the record of a dropped table is kept, so that one that a cluster lists again by then goes on with its epochs."""

    cluster_kind: str = "embedded"
    """What tierers are told of the cluster: a name in `tiering.cluster.registry`."""

    cluster_properties: Mapping[str, str] = field(default_factory=dict)
    """What tierers connect to the cluster with (`HostedCluster.properties`)."""

    lake_format: str = DEFAULT_LAKE_FORMAT
    """What tierers are told of the lake."""

    lake_properties: Mapping[str, str] = field(default_factory=dict)
    """As the lake's catalog takes them. Tierers are told those alone that `lake.catalog_properties` lists as public."""

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
        """How long a long poll is really held: shorter than a third of the service timeout (DESIGN 4)."""
        return min(self.long_poll_ms, self.service_timeout_ms // 3 - 1)

    @property
    def backlog_waits_apart(self) -> bool:
        """Whether tables in backlog wait for a tierer apart from the others: not if their rounds are as all others."""
        return self.backlog_duration_factor > 1

    def public_lake_properties(self) -> dict[str, str]:
        """Those of the lake's properties that everybody may see, by a list of names; tierers have secrets of their own."""
        return public_properties(self.lake_properties)
