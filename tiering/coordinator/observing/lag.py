"""What is seen of logs and lake tables from outside: pending records, lag, totals. Observed, never guessed: None = not seen yet.

Observations are copies with a time. They are renewed in the background, soon after a lake changed, and for few tables
when somebody looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from tiering.cluster.base import LogOffsets
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord, TextOffsets, from_text
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.observing.lake_totals import LakeTotals
from tiering.errors import LakewardError
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo
from tiering.pace import Rest, no_rest

_log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(seconds=1)
"""An observation this old is good enough for somebody who looks."""

ON_DEMAND_TABLES = 200
"""A look over more tables takes what the background saw: it would wait for long, and renew little of what it shows."""

ON_DEMAND_SECONDS = 0.5
"""A look waits no longer for a slow cluster."""

LOOKERS = 4
"""Threads that ask the cluster for whoever looks."""

CHUNK = 200
CHUNK_BUCKETS = 2_000
"""Tables that the background asks about in one question, and buckets of theirs as far as they are known: some milliseconds of work."""


@dataclass(frozen=True)
class Observation:
    """One table's log at `time`. `oldest_time`: commit time of the first row not in the lake; None = no such row, or not known.
    A row that seems to be from the future is from when it was first seen at the latest: its lag must grow like that of any other.

    `tiered` is what the lake held then, `asked` the rows that `oldest_time` is about, by bucket; None = not all of them are known.
    `taken_at` orders observations (steady time): the wall clock may be set back between two.
    """

    time: datetime
    buckets: Mapping[BucketKey, BucketOffsets]
    oldest_time: datetime | None
    tiered: TextOffsets | None = None
    asked: Offsets | None = None
    taken_at: datetime | None = None


@dataclass(frozen=True)
class Pending:
    """Rows in the log that the lake does not have. `size_bytes` None = the cluster does not say how large records are."""

    records: int
    size_bytes: int | None
    oldest_time: datetime | None
    observed_time: datetime

    def lag_ms(self, now: datetime) -> int | None:
        """Age of the oldest of them; 0 if there are none; None if its age is unknown."""
        if self.records == 0:
            return 0
        return None if self.oldest_time is None else milliseconds(now - self.oldest_time)


def pending(seen: Observation, tiered: TextOffsets | None) -> Pending:
    """What is missing in a lake that holds the log up to `tiered` (None = nothing yet)."""
    missing = {bucket: log.log_end - at for bucket, (log, at) in _positions(seen.buckets, tiered).items() if log.log_end > at}
    sizes = [count * seen.buckets[bucket].bytes_per_record for bucket, count in missing.items()]
    known = all(seen.buckets[bucket].bytes_per_record > 0 for bucket in missing)
    records = sum(missing.values())
    return Pending(records, int(sum(sizes)) if known else None, seen.oldest_time if records else None, seen.time)


def _positions(buckets: Mapping[BucketKey, BucketOffsets], tiered: TextOffsets | None) -> dict[BucketKey, tuple[BucketOffsets, int]]:
    reached = from_text(tiered or {})
    return {bucket: (log, max(reached.get(bucket, log.log_start), log.log_start)) for bucket, log in buckets.items()}


class Seen(Protocol):
    """What a look at the coordinator goes by."""

    @property
    def generation(self) -> int: ...

    def pending(self, record: TableRecord) -> Pending | None: ...

    def partitions(self, table_id: int) -> int | None: ...

    def refresh_for_a_look(self, records: Sequence[TableRecord]) -> None: ...


def look(log: LogOffsets, info: TableInfo, tiered: TextOffsets | None, now: Callable[[], datetime]) -> Observation:
    """Asks for the offsets, and for the age of the oldest row that the lake does not have. Raises what the cluster raises."""
    return observed(dict(log.offsets(info)), tiered, now(), lambda missing: log.oldest_timestamps(info, missing))


def observed(
    buckets: Mapping[BucketKey, BucketOffsets],
    tiered: TextOffsets | None,
    time: datetime,
    ages: Callable[[Offsets], Mapping[BucketKey, datetime]],
    earlier: Observation | None = None,
    taken_at: datetime | None = None,
) -> Observation:
    """What these offsets say of a lake that holds the log up to `tiered`. Raises what `ages` raises.

    The first row that the lake lacks is the same row as `earlier` while no bucket goes on from elsewhere, however many rows
    came behind it: `ages` is not asked again then.
    """
    if earlier is not None and earlier.tiered is tiered and earlier.asked is not None and earlier.buckets == buckets:
        return Observation(time, earlier.buckets, _not_after(earlier.oldest_time, time), tiered, earlier.asked, taken_at)
    missing = {bucket: at for bucket, (log, at) in _positions(buckets, tiered).items() if log.log_end > at}
    if earlier is not None and earlier.asked == missing:
        return Observation(time, buckets, _not_after(earlier.oldest_time, time), tiered, earlier.asked, taken_at)
    found = ages(missing) if missing else {}
    oldest = _not_after(min(found.values(), default=None), time)
    return Observation(time, buckets, oldest, tiered, missing if len(found) == len(missing) else None, taken_at)


def _not_after(oldest: datetime | None, seen: datetime) -> datetime | None:
    return seen if oldest is not None and oldest > seen else oldest


def partition_count(seen: Observation) -> int:
    """How many partitions the table had then."""
    return len({bucket.partition_id for bucket in seen.buckets} - {None})


class Observer:
    """Observations of all lake tables, by table id."""

    def __init__(self, table_records: TableRecords, cluster: LogOffsets, lakes: Lakes, discovery: Discovery) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._discovery = discovery
        self._totals = LakeTotals(table_records, lakes)
        self._lock = threading.Lock()
        self._seen: dict[int, Observation] = {}
        self._known: dict[int, tuple[Observation, TextOffsets | None, Pending]] = {}
        self._pool = ThreadPoolExecutor(LOOKERS, thread_name_prefix="observe")
        self._closed = False
        self._generation = 0

    @property
    def generation(self) -> int:
        """While it is the same, `pending` says the same of the same records."""
        return self._generation

    def pending(self, record: TableRecord) -> Pending | None:
        """As last seen; None = never yet."""
        seen, tiered = self._seen.get(record.table_id), record.lake.offsets
        if seen is None:
            return None
        known = self._known.get(record.table_id)
        if known is None or known[0] is not seen or known[1] is not tiered:
            # Observations and offsets are replaced, never changed: what was made of the same two still holds.
            known = self._known[record.table_id] = (seen, tiered, self._renewed(known, seen, tiered))
        return known[2]

    def partitions(self, table_id: int) -> int | None:
        """How many partitions the table had when last seen; None = never yet."""
        seen = self._seen.get(table_id)
        return None if seen is None else partition_count(seen)

    def observe(self, record: TableRecord) -> Pending | None:
        """Looks now; None if the cluster does not know the table or does not answer."""
        self._observe([record])
        return self.pending(record)

    def observe_soon(self, table_id: int) -> None:
        """Looks at log and lake in the background."""
        with self._lock:
            if not self._closed:
                self._pool.submit(self._renew, [table_id], no_rest)

    def lake_was_read(self, table_id: int, snapshot_id: int) -> None:
        """Its totals are on record as of that snapshot: only its log is looked at, in the background."""
        self._totals.measured(table_id, snapshot_id)
        self.observe_soon(table_id)

    def observe_all(self, rest: Rest = no_rest) -> None:
        """One round of the background: every table's offsets, and lake totals that are not fresh."""
        table_ids = [record.table_id for record in self._table_records.live()]
        self._forget(set(self._seen).difference(table_ids))
        for chunk in self._chunks(table_ids):
            if self._closed or not self._renew(chunk, rest):
                return

    def refresh_for_a_look(self, records: Sequence[TableRecord]) -> None:
        """Renews what is older than a second, for a short time; not for many tables. Blocks: not for an event loop."""
        if len(records) > ON_DEMAND_TABLES:
            return
        now = self._table_records.now().steady
        stale = [record for record in records if self._is_stale(record.table_id, now)]
        looks: list[Future[bool]] = []
        with self._lock:
            if not self._closed:
                parts = (stale[part::LOOKERS] for part in range(LOOKERS))
                looks = [self._pool.submit(self._observe, part) for part in parts if part]
        _, late = wait(looks, timeout=ON_DEMAND_SECONDS)
        for each in late:
            each.cancel()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _chunks(self, table_ids: Sequence[int]) -> Iterator[Sequence[int]]:
        start = buckets = 0
        for stop, table_id in enumerate(table_ids, 1):
            seen = self._seen.get(table_id)
            buckets += 1 if seen is None else len(seen.buckets)
            if stop - start == CHUNK or buckets >= CHUNK_BUCKETS or stop == len(table_ids):
                yield table_ids[start:stop]
                start, buckets = stop, 0

    def _is_stale(self, table_id: int, now: datetime) -> bool:
        seen = self._seen.get(table_id)
        return seen is None or seen.taken_at is None or now - seen.taken_at > FRESH_FOR

    def _forget(self, table_ids: Collection[int]) -> None:
        for table_id in table_ids:
            self._seen.pop(table_id, None)
            self._known.pop(table_id, None)
        if table_ids:
            with self._lock:
                self._generation += 1
        self._totals.forget(table_ids)

    def _renew(self, table_ids: Sequence[int], rest: Rest) -> bool:
        """Log and lake of these tables; False = told to stop."""
        records = [record for table_id in table_ids if (record := self._table_records.get(table_id)) is not None]
        if not self._observe(records, rest):
            return False
        for record in records:
            self._totals.renew(record)
            if not rest():
                return False
        return True

    def _observe(self, records: Sequence[TableRecord], rest: Rest = no_rest) -> bool:
        """Their logs. A table that does not answer keeps its last observation; False = told to stop."""
        infos = self._discovery.infos
        known = [(record, infos[record.table_id]) for record in records if record.table_id in infos]
        # The time before the question: of two that overlap, the one that may have seen more is taken for the newer.
        moment = self._table_records.now()
        try:
            logs = self._cluster.offsets_of([info for _, info in known]) if known else {}
        except LakewardError as error:
            _log.debug("offsets could not be observed", tables=len(known), error=error.message)
            return rest()
        for record, info in known:
            if (buckets := logs.get(record.table_id)) is not None:
                self._take(record, info, buckets, moment)
            if not rest():
                return False
        return True

    def _take(self, record: TableRecord, info: TableInfo, buckets: Mapping[BucketKey, BucketOffsets], moment: Moment) -> None:
        earlier = self._seen.get(record.table_id)
        ages = partial(self._cluster.oldest_timestamps, info)
        try:
            seen = observed(buckets, record.lake.offsets, moment.wall, ages, earlier, moment.steady)
        except LakewardError as error:
            _log.debug("the oldest rows could not be observed", table=str(record.path), error=error.message)
            return
        with self._lock:
            known = self._seen.get(record.table_id)
            if known is None or known.taken_at is None or known.taken_at <= moment.steady:
                self._seen[record.table_id] = seen
                self._generation += 1
        self.pending(record)  # now, in the background, rather than while somebody waits

    def _renewed(
        self, known: tuple[Observation, TextOffsets | None, Pending] | None, seen: Observation, tiered: TextOffsets | None
    ) -> Pending:
        if known is not None and known[0].buckets is seen.buckets and known[1] is tiered and seen.tiered is tiered:
            return replace(known[2], observed_time=seen.time, oldest_time=seen.oldest_time if known[2].records else None)
        return pending(seen, tiered)
