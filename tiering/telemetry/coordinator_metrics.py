"""The metrics of the coordinator. Each scrape reads them from memory, takes no lock, and asks the cluster only for the list of leases.

Tables that the caller may not describe (`access.grants.current_access`) are counted, and have no series of their own.

If there are very many tables, the worst ones have series of their own: first those that fail or are behind, then others by name, so that
healthy tables stay the same from scrape to scrape. A dropped table is in no later scrape.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tiering.access.grants import current_access
from tiering.coordinator.decisions.backlog import is_backlog
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.observing.lag import Lag
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.status.tierer_statuses import tierer_statuses
from tiering.errors import LakewardError
from tiering.instants import to_milliseconds
from tiering.lake.health.measure import LakeMeasure
from tiering.lake.health.score import ILL_SCORE, HealthScore
from tiering.lake.health.table_health import HealthObservation
from tiering.model.states import LASTING, TableState
from tiering.model.tierers import TiererState, TiererStatus
from tiering.telemetry import metrics
from tiering.telemetry.metrics import DEFAULT_TABLES, VERSION, Metric

SHOWN_TIERERS = 100
"""Number of tierers with a series of their own: those that were silent for longest."""

YIELD_TABLES = 100
"""Number of tables after which other threads may run. It takes some milliseconds."""


@dataclass(frozen=True)
class TableMetrics:
    """The figures of one table. None = unknown."""

    record: TableRecord
    lag_seconds: float | None
    pending_records: int | None
    behind_seconds: float | None

    @property
    def order(self) -> tuple[bool, float, str, str]:
        """Sort key: tables that fail or are behind come first, the furthest behind among them first."""
        behind = self.behind_seconds or 0.0
        troubled = behind > 0 or self.record.error is not None
        return not troubled, -behind, self.record.database_name, self.record.table_name


def figures(record: TableRecord, lag: Lag | None, now: Moment) -> TableMetrics:
    """Returns the figures of a table at that moment."""
    age_ms = None if lag is None else lag.age_ms(now.wall)
    if age_ms is None:
        return TableMetrics(record, None, None if lag is None else lag.records, None)
    assert lag is not None
    return TableMetrics(record, age_ms / 1_000, lag.records, max(0, age_ms - record.freshness_ms) / 1_000)


@dataclass
class _Totals:
    """Sums over tables."""

    tables: int = 0
    states: Counter[str] = field(default_factory=Counter)
    behind: int = 0
    failing: Counter[bool] = field(default_factory=Counter)
    paused: int = 0
    in_backlog: int = 0
    max_lag: float = 0.0
    pending_records: int = 0
    failures: int = 0
    unhealthy: int = 0
    upkeep_failing: int = 0
    upkeep_paused: int = 0
    rewrite_bytes: int = 0

    def add_health(self, record: TableRecord, observation: HealthObservation | None) -> None:
        """Adds the health of a lake table and the state of its upkeep."""
        self.upkeep_failing += record.upkeep.failures > 0
        self.upkeep_paused += record.upkeep.pause is not None
        if observation is not None and observation.measure is not None and observation.health is not None:
            self.unhealthy += observation.health.score < ILL_SCORE
            self.rewrite_bytes += observation.measure.files.rewrite_bytes

    def add(self, table: TableMetrics) -> None:
        record = table.record
        assert record.state is not None
        self.tables += 1
        self.states[record.state.value] += 1
        self.behind += bool(table.behind_seconds) and record.pause is None
        if record.error is not None:
            self.failing[record.error.retryable] += 1
        self.paused += record.pause is not None
        self.in_backlog += bool(is_backlog(record))
        self.max_lag = max(self.max_lag, table.lag_seconds or 0.0)
        self.pending_records += table.pending_records or 0
        self.failures += record.error_count


class CoordinatorCollector(Collector):
    """A collector of `prometheus_client` for one coordinator. `shown_tables`: greatest number of tables with series of their own."""

    def __init__(self, coordinator: Coordinator, shown_tables: int = DEFAULT_TABLES) -> None:
        self._coordinator = coordinator
        self._shown_tables = shown_tables

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Returns nothing, because this package declares the names."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Returns all metrics at one moment."""
        started = time.perf_counter()
        now = self._coordinator.table_records.now()
        tables, totals = self._read_tables(now)
        access = current_access()
        nameable = tables if access.is_unrestricted else [table for table in tables if access.sees(table.record.path)]
        shown = heapq.nsmallest(self._shown_tables, nameable, key=lambda table: table.order)
        left_out = _Totals()
        if len(shown) < len(tables):
            ids = {table.record.table_id for table in shown}
            for table in tables:
                if table.record.table_id not in ids:
                    left_out.add(table)
        yield from _totals(totals, left_out)
        yield from (_per_table(metric, shown, cell) for metric, cell in _cells(now).items())
        yield from (_per_table(metric, shown, cell) for metric, cell in self._health_cells().items())
        yield from self._tierers(now)
        yield from self._leases(now)
        yield _single(metrics.TABLES_NOT_PUBLISHED, self._coordinator.publisher.failing())
        yield from self._open_reads(now)
        yield _single(metrics.COORDINATOR_EPOCH, self._coordinator.table_records.epoch)
        yield _by_label(metrics.BUILD, {VERSION: 1})
        yield _single(metrics.SCRAPE_SECONDS, time.perf_counter() - started)

    def _read_tables(self, now: Moment) -> tuple[list[TableMetrics], _Totals]:
        observer, totals, tables = self._coordinator.observer, _Totals(), []
        for number, record in enumerate(self._coordinator.table_records.all().values(), 1):
            if record.state is not None:
                table = figures(record, observer.lag(record), now)
                tables.append(table)
                totals.add(table)
                totals.add_health(record, self._coordinator.lake_health.observation(record))
            if number % YIELD_TABLES == 0:
                time.sleep(0)
        return tables, totals

    def _health_cells(self) -> dict[Metric, Callable[[TableMetrics], float | None]]:
        """Reads each metric of a lake table's health. None = the table has no sample of it."""

        def cell(value: Callable[[LakeMeasure, HealthScore], float | None]) -> Callable[[TableMetrics], float | None]:
            def observed(table: TableMetrics) -> float | None:
                observation = self._coordinator.lake_health.observation(table.record)
                if observation is None or observation.measure is None or observation.health is None:
                    return None
                return value(observation.measure, observation.health)

            return observed

        return {
            metrics.HEALTH_SCORE: cell(lambda measure, health: health.score),
            metrics.SMALL_FILES: cell(lambda measure, health: measure.files.small_files),
            metrics.DEAD_ROW_SHARE: cell(lambda measure, health: measure.files.dead_share),
            metrics.METADATA_BYTES: cell(lambda measure, health: measure.metadata_bytes),
        }

    def _tierers(self, now: Moment) -> Iterator[GaugeMetricFamily]:
        running = [record for record in self._coordinator.table_records.all().values() if record.running is not None]
        tierers = tierer_statuses(now, self._coordinator.heartbeats.tierers.all(), running)
        active = [tierer for tierer in tierers if tierer.state is TiererState.ACTIVE]
        states = Counter(tierer.state.value for tierer in tierers)
        shown = sorted(tierers, key=lambda tierer: tierer.heartbeat_time)[:SHOWN_TIERERS]
        yield _by_label(metrics.TIERERS, {state.value: states[state.value] for state in TiererState})
        yield _single(metrics.SLOTS, sum(tierer.slots for tierer in active))
        yield _single(metrics.SLOTS_USED, sum(tierer.tables_running for tierer in active))
        yield _by_label(metrics.SILENCE, _silences(now, shown))
        yield _single(metrics.TIERERS_LEFT_OUT, len(tierers) - len(shown))

    def _leases(self, now: Moment) -> Iterator[GaugeMetricFamily]:
        """Returns the metrics of leases; none while the cluster does not answer."""
        try:
            leases = self._coordinator.cluster.leases()
        except LakewardError:
            return
        states = Counter(lease.state(now.wall) for lease in leases)
        yield _single(metrics.LEASES, len(leases))
        yield _single(metrics.LEASED_SNAPSHOTS, sum(len(lease.snapshots) for lease in leases))
        yield _by_label(metrics.LEASE_STATES, {state: states[state] for state in ("ACTIVE", "EXPIRING", "EXPIRED")})
        first = min((lease.expires_at for lease in leases), default=None)
        if first is not None:
            yield _single(metrics.LEASE_REMAINING, max(0.0, (first - now.wall).total_seconds()))

    def _open_reads(self, now: Moment) -> Iterator[GaugeMetricFamily]:
        reads = self._coordinator.reads.open_reads.all()
        yield _single(metrics.OPEN_READS, len(reads))
        yield _single(metrics.OLDEST_READ, max(0.0, (now.wall - reads[0].opened_at).total_seconds()) if reads else 0.0)


def _silences(now: Moment, tierers: Sequence[TiererStatus]) -> dict[str, float]:
    """Returns seconds since the last heartbeat by tierer id. If several processes have one id, the latest heartbeat counts."""
    silences: dict[str, float] = {}
    for tierer in tierers:
        silent = max(0.0, (now.wall - tierer.heartbeat_time).total_seconds())
        silences[tierer.tierer_id] = min(silent, silences.get(tierer.tierer_id, silent))
    return silences


def _totals(totals: _Totals, left_out: _Totals) -> Iterator[GaugeMetricFamily]:
    yield _single(metrics.PENDING_TABLES, totals.states[TableState.PENDING.value])
    yield _single(metrics.RUNNING_TABLES, totals.states[TableState.TIERING.value])
    yield _by_label(metrics.TABLES, {str(status): totals.states[status] for status in LASTING})
    yield _single(metrics.TABLES_BEHIND, totals.behind)
    yield _by_label(metrics.TABLES_FAILING, {"yes": totals.failing[True], "no": totals.failing[False]})
    yield _single(metrics.TABLES_PAUSED, totals.paused)
    yield _single(metrics.TABLES_IN_BACKLOG, totals.in_backlog)
    yield _single(metrics.TABLES_UNHEALTHY, totals.unhealthy)
    yield _single(metrics.TABLES_UPKEEP_FAILING, totals.upkeep_failing)
    yield _single(metrics.TABLES_UPKEEP_PAUSED, totals.upkeep_paused)
    yield _single(metrics.REWRITE_BYTES, totals.rewrite_bytes)
    yield _single(metrics.MAX_LAG, totals.max_lag)
    yield _single(metrics.ALL_PENDING_RECORDS, totals.pending_records)
    yield _single(metrics.ALL_FAILURES, totals.failures)
    yield _single(metrics.TABLES_LEFT_OUT, left_out.tables)
    yield _single(metrics.LEFT_OUT_MAX_LAG, left_out.max_lag)
    yield _single(metrics.LEFT_OUT_PENDING_RECORDS, left_out.pending_records)
    yield _single(metrics.LEFT_OUT_BEHIND, left_out.behind)


def _cells(now: Moment) -> dict[Metric, Callable[[TableMetrics], float | None]]:
    """Reads each metric of a table. None = the table has no sample of it."""

    def tiered_ms(table: TableMetrics) -> int | None:
        record = table.record
        if record.last_checked_time is not None:
            return to_milliseconds(record.last_checked_time)
        due = now.to_wall(record.due_deadline)
        return None if due is None else to_milliseconds(due - timedelta(milliseconds=record.freshness_ms))

    def tier_lag_ms(table: TableMetrics) -> int | None:
        at = tiered_ms(table)
        return None if at is None else max(0, to_milliseconds(now.wall) - at)

    def pending_ms(table: TableMetrics) -> float:
        since = table.record.pending_since if table.record.state is TableState.PENDING else None
        return 0.0 if since is None else max(0.0, (now.steady - since) / timedelta(milliseconds=1))

    return {
        metrics.TIER_LAG: tier_lag_ms,
        metrics.TIERED_TIMESTAMP: tiered_ms,
        metrics.TIER_DURATION: lambda table: table.record.last_round_duration_ms,
        metrics.FAILURES: lambda table: table.record.error_count,
        metrics.FILE_SIZE: lambda table: table.record.lake.size_bytes,
        metrics.RECORD_COUNT: lambda table: table.record.lake.records,
        metrics.PENDING_TIME: pending_ms,
        metrics.FRESHNESS: lambda table: table.record.freshness_ms,
        metrics.LAG: lambda table: table.lag_seconds,
        metrics.BEHIND: lambda table: table.behind_seconds,
        metrics.PENDING_RECORDS: lambda table: table.pending_records,
        metrics.LAKE_FILES: lambda table: table.record.lake.files,
        metrics.FAILURES_IN_A_ROW: lambda table: table.record.consecutive_failures,
        metrics.DEAD_LETTERS: lambda table: sum(map(len, table.record.lake.dead_letters.values())),
        metrics.SUPERSEDED_DEAD_LETTERS: lambda table: sum(map(len, table.record.lake.superseded.values())),
        metrics.PAUSED: lambda table: table.record.pause is not None,
    }


def _single(metric: Metric, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.comment, value=value)


def _by_label(metric: Metric, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.comment, labels=metric.labels)
    for label, value in values.items():
        family.add_metric((label,), value)
    return family


def _per_table(metric: Metric, shown: Sequence[TableMetrics], cell: Callable[[TableMetrics], float | None]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.comment, labels=metric.labels)
    for number, table in enumerate(shown, 1):
        value = cell(table)
        if value is not None:
            family.add_metric((table.record.database_name, table.record.table_name), value)
        if number % YIELD_TABLES == 0:
            time.sleep(0)
    return family
