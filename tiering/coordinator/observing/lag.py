"""How far the lake is behind the log: records that it lacks, their size, and the age of the oldest one.

All values are observed, never estimated; None if they were not observed yet. Observations are copies with a time. They are renewed in the
background, soon after a lake changed, and for a few tables at the request of a reader.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from tiering.cluster.base import LogOffsets, SplitSource
from tiering.coordinator.decisions import table_lifecycle
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord, TextOffsets, from_text
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.dropped_partitions import DropReports
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import LakewardError
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(seconds=1)
"""Largest age of an observation that is returned without renewal."""

ON_DEMAND_TABLES = 200
"""A read of more tables returns the background's observations. Renewing so many would take long and serve few of them."""

ON_DEMAND_SECONDS = 0.5
"""How long a read waits for a slow cluster."""

OBSERVER_THREADS = 4
"""Threads that ask the cluster on behalf of readers."""

LAKE_THREADS = 4
"""Threads that read the size of a lake table after a manual change. No caller waits for them."""

CHUNK = 200
CHUNK_BUCKETS = 2_000
"""Upper bounds of tables and known buckets in one request to the cluster: some milliseconds of work."""


@dataclass(frozen=True)
class Observation:
    """One table's log at `time`. `oldest_time` is the commit time of the first row that the lake lacks; None if there is none, or unknown.

    A row with a time in the future counts as written when it was first observed, so that its lag grows like that of any other row.
    `tiered` is what the lake held then. `missing_from` is the first offset of each bucket that the lake lacked; None if the age of some of
    these rows is unknown. `taken_at` is a steady time that orders observations, because the wall clock may be set back between two.
    """

    time: datetime
    buckets: Mapping[BucketKey, BucketOffsets]
    oldest_time: datetime | None
    tiered: TextOffsets | None = None
    missing_from: Offsets | None = None
    taken_at: datetime | None = None
    oldest_times: Mapping[BucketKey, datetime] = field(default_factory=dict)
    """Commit time of the first row of each bucket that the lake lacks, as far as known."""


@dataclass(frozen=True)
class Lag:
    """Rows in the log that the lake lacks. `size_bytes` is None if the cluster does not know the size of records."""

    records: int
    size_bytes: int | None
    oldest_time: datetime | None
    observed_time: datetime

    def age_ms(self, now: datetime) -> int | None:
        """Returns the age of the oldest row; 0 if there are no rows; None if the age is unknown."""
        if self.records == 0:
            return 0
        return None if self.oldest_time is None else milliseconds(now - self.oldest_time)


def lag_of(observation: Observation, tiered: TextOffsets | None) -> Lag:
    """Returns the lag of a lake that holds the log up to `tiered`; None means that the lake holds nothing."""
    missing = {bucket: log.log_end - at for bucket, (log, at) in _positions(observation.buckets, tiered).items() if log.log_end > at}
    averages = {bucket: observation.buckets[bucket].bytes_per_record for bucket in missing}
    sizes = [missing[bucket] * average for bucket, average in averages.items() if average is not None]
    size_bytes = int(sum(sizes)) if len(sizes) == len(missing) else None
    records = sum(missing.values())
    return Lag(records, size_bytes, observation.oldest_time if records else None, observation.time)


def _positions(buckets: Mapping[BucketKey, BucketOffsets], tiered: TextOffsets | None) -> dict[BucketKey, tuple[BucketOffsets, int]]:
    reached = from_text(tiered or {})
    return {bucket: (log, max(reached.get(bucket, log.log_start), log.log_start)) for bucket, log in buckets.items()}


class LagSource(Protocol):
    """The source of lags for a view of the coordinator."""

    @property
    def generation(self) -> int: ...

    def lag(self, record: TableRecord) -> Lag | None: ...

    def observation(self, table_id: int) -> Observation | None: ...

    def refresh(self, records: Sequence[TableRecord]) -> None: ...


def observe_log(log: LogOffsets, info: TableInfo, tiered: TextOffsets | None, now: Callable[[], datetime]) -> Observation:
    """Reads the log's offsets and the age of the oldest row that the lake lacks. Raises the cluster's errors."""
    return observation_of(dict(log.offsets(info)), tiered, now(), lambda missing: log.oldest_timestamps(info, missing))


def observation_of(
    buckets: Mapping[BucketKey, BucketOffsets],
    tiered: TextOffsets | None,
    time: datetime,
    ages: Callable[[Offsets], Mapping[BucketKey, datetime]],
    earlier: Observation | None = None,
    taken_at: datetime | None = None,
) -> Observation:
    """Returns the observation for these offsets and a lake that holds the log up to `tiered`. Raises the errors of `ages`.

    While each bucket's first missing offset is the same as in `earlier`, its first missing row is the same. Then `ages` is not called,
    however many rows were appended.
    """
    if earlier is not None and earlier.tiered is tiered and earlier.missing_from is not None and earlier.buckets == buckets:
        return replace(earlier, time=time, oldest_time=_not_after(earlier.oldest_time, time), tiered=tiered, taken_at=taken_at)
    missing_from = {bucket: at for bucket, (log, at) in _positions(buckets, tiered).items() if log.log_end > at}
    if earlier is not None and earlier.missing_from == missing_from:
        oldest = _not_after(earlier.oldest_time, time)
        return replace(earlier, time=time, buckets=buckets, oldest_time=oldest, tiered=tiered, taken_at=taken_at)
    commit_times = ages(missing_from) if missing_from else {}
    oldest = _not_after(min(commit_times.values(), default=None), time)
    known_from = missing_from if len(commit_times) == len(missing_from) else None
    oldest_times = {bucket: min(commit_time, time) for bucket, commit_time in commit_times.items()}
    return Observation(time, buckets, oldest, tiered, known_from, taken_at, oldest_times)


def _not_after(oldest: datetime | None, observed: datetime) -> datetime | None:
    return observed if oldest is not None and oldest > observed else oldest


def partitions_of(observation: Observation) -> int:
    """Returns how many partitions the table had at the observation."""
    return len({bucket.partition_id for bucket in observation.buckets} - {None})


class LagObserver:
    """Observes the logs of all lake tables and keeps the observations by table id. It is thread-safe."""

    def __init__(self, table_records: TableRecords, cluster: SplitSource, lakes: Lakes, discovery: Discovery) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._discovery = discovery
        self._totals = LakeTotals(table_records, lakes)
        self._drops = DropReports(table_records, cluster)
        self._lock = threading.Lock()
        self._observations: dict[int, Observation] = {}
        self._lags: dict[int, tuple[Observation, TextOffsets | None, Lag]] = {}
        self._pool = ThreadPoolExecutor(OBSERVER_THREADS, thread_name_prefix="observe")
        self._lakes_pool = ThreadPoolExecutor(LAKE_THREADS, thread_name_prefix="lake-size")
        self._closed = False
        self.generation = 0
        """A number that changes with the observations. While it is the same, `lag` returns the same for the same records."""

    def lag(self, record: TableRecord) -> Lag | None:
        """Returns the last observed lag of the table; None if it was not observed yet."""
        observation, tiered = self._observations.get(record.table_id), record.shown_offsets
        if observation is None:
            return None
        cached_lag = self._lags.get(record.table_id)
        if cached_lag is None or cached_lag[0] is not observation or cached_lag[1] is not tiered:
            # Observations and offsets are replaced, never changed, so a lag computed from the same two is still valid.
            cached_lag = self._lags[record.table_id] = (observation, tiered, self._renewed(cached_lag, observation, tiered))
        return cached_lag[2]

    def waiting_since(self, record: TableRecord) -> datetime | None:
        """Returns a lower bound of the times of the rows that the lake lacks, as last observed; None if unknown. It does no I/O."""
        lag = self.lag(record)
        if lag is None:
            return None
        return lag.oldest_time if lag.records else lag.observed_time

    def observation(self, table_id: int) -> Observation | None:
        """Returns the last observation of the table's log; None if there is none yet."""
        return self._observations.get(table_id)

    def observe(self, record: TableRecord) -> Lag | None:
        """Observes the table now and returns its lag; None if the cluster does not know the table or does not answer."""
        self._observe([record])
        return self.lag(record)

    def observe_soon(self, table_id: int) -> None:
        """Observes log and lake in the background."""
        self._observe_log_soon(table_id)
        with self._lock:
            if not self._closed:
                self._lakes_pool.submit(self._measure, table_id)

    def lake_was_read(self, table_id: int, snapshot_id: int) -> None:
        """Observes only the log, in the background. The record already has the lake's totals as of that snapshot."""
        self._totals.measured(table_id, snapshot_id)
        self._observe_log_soon(table_id)

    def observe_all(self, throttle: Throttling = unthrottled) -> None:
        """Observes the offsets of every table: one background pass. It reads no lake, because a lake may hang."""
        self._drops.report_counted()
        table_ids = [record.table_id for record in self._table_records.live()]
        self._forget(set(self._observations).difference(table_ids))
        for chunk in self._chunks(table_ids):
            if self._closed or not self._renew(chunk, throttle):
                return

    def measure_lakes(self, throttle: Throttling = unthrottled, *, failing: bool = False) -> None:
        """Reads the lake totals that are not fresh: one background pass. With `failing`, over the tables whose last read failed.

        These tables have their own passes, because a lake table that hangs delays its pass.
        """
        for record in self._table_records.live():
            if self._closed:
                return
            if self._totals.failed(record.table_id) is failing:
                self._totals.renew(record)
            if not throttle():
                return

    def refresh(self, records: Sequence[TableRecord]) -> None:
        """Renews observations older than a second, if the tables are few; waits a short time. It blocks: never call it in an event loop."""
        if len(records) > ON_DEMAND_TABLES:
            return
        now = self._table_records.now().steady
        stale = [record for record in records if self._is_stale(record.table_id, now)]
        observing: list[Future[bool]] = []
        with self._lock:
            if not self._closed:
                parts = (stale[part::OBSERVER_THREADS] for part in range(OBSERVER_THREADS))
                observing = [self._pool.submit(self._observe, part) for part in parts if part]
        _, late = wait(observing, timeout=ON_DEMAND_SECONDS)
        for future in late:
            future.cancel()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._lakes_pool.shutdown(wait=False, cancel_futures=True)

    def _chunks(self, table_ids: Sequence[int]) -> Iterator[Sequence[int]]:
        start = buckets = 0
        for stop, table_id in enumerate(table_ids, 1):
            observation = self._observations.get(table_id)
            buckets += 1 if observation is None else len(observation.buckets)
            if stop - start == CHUNK or buckets >= CHUNK_BUCKETS or stop == len(table_ids):
                yield table_ids[start:stop]
                start, buckets = stop, 0

    def _is_stale(self, table_id: int, now: datetime) -> bool:
        observation = self._observations.get(table_id)
        return observation is None or observation.taken_at is None or now - observation.taken_at > FRESH_FOR

    def _forget(self, table_ids: Collection[int]) -> None:
        for table_id in table_ids:
            self._observations.pop(table_id, None)
            self._lags.pop(table_id, None)
        if table_ids:
            with self._lock:
                self.generation += 1
        self._totals.forget(table_ids)
        self._drops.forget(table_ids)

    def _renew(self, table_ids: Sequence[int], throttle: Throttling) -> bool:
        """Observes the logs of these tables; False if `throttle` says to stop."""
        return self._observe([record for table_id in table_ids if (record := self._table_records.get(table_id)) is not None], throttle)

    def _observe_log_soon(self, table_id: int) -> None:
        with self._lock:
            if not self._closed:
                self._pool.submit(self._renew, [table_id], unthrottled)

    def _measure(self, table_id: int) -> None:
        if (record := self._table_records.get(table_id)) is not None:
            self._totals.renew(record)

    def _observe(self, records: Sequence[TableRecord], throttle: Throttling = unthrottled) -> bool:
        """Observes the logs; False if `throttle` says to stop. A table without an answer of the cluster keeps its last observation."""
        infos = self._discovery.infos
        listed = [(record, infos[record.table_id]) for record in records if record.table_id in infos]
        # The time before the request: of two overlapping requests, the one that may show more then counts as the newer.
        moment = self._table_records.now()
        try:
            logs = self._cluster.offsets_of([info for _, info in listed]) if listed else {}
        except LakewardError as error:
            _log.debug("offsets could not be observed", tables=len(listed), error=error.message)
            return throttle()
        for record, info in listed:
            if (buckets := logs.get(record.table_id)) is not None:
                self._take(record, info, buckets, moment)
            if not throttle():
                return False
        return True

    def _take(self, record: TableRecord, info: TableInfo, buckets: Mapping[BucketKey, BucketOffsets], moment: Moment) -> None:
        earlier = self._observations.get(record.table_id)
        ages = partial(self._cluster.oldest_timestamps, info)
        try:
            observation = observation_of(buckets, record.shown_offsets, moment.wall, ages, earlier, moment.steady)
        except LakewardError as error:
            _log.debug("the oldest rows could not be observed", table=str(record.path), error=error.message)
            return
        with self._lock:
            present = self._observations.get(record.table_id)
            if present is None or present.taken_at is None or present.taken_at <= moment.steady:
                self._observations[record.table_id] = observation
                self.generation += 1
        self._drops.compare(record, info, {} if earlier is None else earlier.buckets, buckets)
        self._act_on(record)

    def _act_on(self, record: TableRecord) -> None:
        """Decides what follows from waiting rows. The lag is computed here in the background, so that no reader waits for it."""
        lag, records = self.lag(record), self._table_records
        if lag is None or not lag.records or not table_lifecycle.may_change_by_rows(record, records.now().wall, records.options):
            return
        with records.changing():
            latest = records.get(record.table_id)
            lag = None if latest is None else self.lag(latest)  # with the lake as it is recorded now
            if latest is None or lag is None:
                return
            rows = table_lifecycle.WaitingRows(lag.records, lag.size_bytes, lag.oldest_time)
            change = table_lifecycle.rows_wait(records.context(), latest, rows)
            if change is not None:
                records.put(change)

    def _renewed(
        self, earlier: tuple[Observation, TextOffsets | None, Lag] | None, observation: Observation, tiered: TextOffsets | None
    ) -> Lag:
        if earlier is not None and earlier[0].buckets is observation.buckets and earlier[1] is tiered and observation.tiered is tiered:
            return replace(earlier[2], observed_time=observation.time, oldest_time=observation.oldest_time if earlier[2].records else None)
        return lag_of(observation, tiered)


TOTALS_FRESH_FOR = timedelta(minutes=10)
"""Age after which an unchanged table is read again. Without a commit of Lakeward, only other writers and compaction change totals."""
TOTALS_FAILED_FOR = timedelta(minutes=1)
"""Pause after a failed read, which may have taken long. Sizes are only displayed."""


class LakeTotals:
    """Reads the rows, bytes and files of lake tables, and keeps them in their records so that they are known after a restart.

    Times are steady, so a clock that is set back has no effect.
    """

    def __init__(self, table_records: TableRecords, lakes: Lakes) -> None:
        self._table_records = table_records
        self._lakes = lakes
        self._read_at: dict[int, tuple[int | None, datetime]] = {}
        self._failed_at: dict[int, datetime] = {}

    def renew(self, record: TableRecord) -> None:
        """Reads the lake table if its snapshot is new, or the last read is too old."""
        now, lake = self._table_records.now().steady, record.lake
        if lake.snapshot_id is None:
            return
        snapshot, time = self._read_at.get(record.table_id, (None, now))
        if snapshot == lake.snapshot_id and now - time < TOTALS_FRESH_FOR:
            return
        if now - self._failed_at.get(record.table_id, datetime.min.replace(tzinfo=UTC)) < TOTALS_FAILED_FOR:
            return
        try:
            view = self._lakes.of(record.lake_format).view(record.path)
        except LakewardError as error:
            _log.debug("the lake table's size could not be observed", table=str(record.path), error=error.message)
            self._failed_at[record.table_id] = self._table_records.now().steady
            return
        self._failed_at.pop(record.table_id, None)
        self._read_at[record.table_id] = (lake.snapshot_id, now)
        if view is None:
            return
        with self._table_records.changing():
            latest = self._table_records.get(record.table_id)
            if latest is None:
                return
            measured = replace(latest.lake, records=view.records, size_bytes=view.size_bytes, files=view.files, location=view.location)
            if measured != latest.lake:
                self._table_records.put(Change(latest).update(lake=measured))

    def failed(self, table_id: int) -> bool:
        """Returns whether the latest read failed."""
        return table_id in self._failed_at

    def measured(self, table_id: int, snapshot_id: int) -> None:
        """Notes that the recorded totals are those of this snapshot."""
        self._read_at[table_id] = (snapshot_id, self._table_records.now().steady)

    def forget(self, table_ids: Iterable[int]) -> None:
        """Forgets tables that were dropped."""
        for table_id in table_ids:
            self._read_at.pop(table_id, None)
            self._failed_at.pop(table_id, None)
