"""What is seen of logs and lake tables from outside: pending records, lag, totals. Observed, never guessed: None = not seen yet.

Observations are copies with a time. They are renewed in the background, soon after a lake changed, and for few tables
when somebody looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

import structlog

from tiering.cluster.base import Cluster
from tiering.coordinator.book import Book
from tiering.coordinator.core import Change
from tiering.coordinator.discovery import Discovery
from tiering.coordinator.lakes import Lakes
from tiering.coordinator.records import TableRecord, TextOffsets, from_text
from tiering.coordinator.timebase import milliseconds
from tiering.errors import LakewardError
from tiering.model import BucketKey, BucketOffsets, Offsets, TableInfo

_log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(seconds=1)
"""An observation this old is good enough for somebody who looks."""

ON_DEMAND_TABLES = 200
"""With more tables, a look takes what the background saw."""

ON_DEMAND_SECONDS = 0.5
"""A look waits no longer for a slow cluster."""

TOTALS_FRESH_FOR = timedelta(minutes=10)
"""Lake totals change without us only through other writers and compaction."""


@dataclass(frozen=True)
class Observation:
    """One table's log at `time`. `oldest_time`: commit time of the first row not in the lake; None = no such row."""

    time: datetime
    buckets: Mapping[BucketKey, BucketOffsets]
    oldest_time: datetime | None


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


class Log(Protocol):
    """The part of a `Cluster` that is observed."""

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]: ...

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]: ...


class Seen(Protocol):
    """What a look at the coordinator goes by."""

    def pending(self, record: TableRecord) -> Pending | None: ...

    def partitions(self, table_id: int) -> int | None: ...

    def refresh_for_a_look(self, records: Sequence[TableRecord]) -> None: ...


def look(log: Log, info: TableInfo, tiered: TextOffsets | None, now: Callable[[], datetime]) -> Observation:
    """Asks for the offsets, and for the age of the oldest row that the lake does not have. Raises what the cluster raises."""
    buckets = dict(log.offsets(info))
    missing = {bucket: at for bucket, (each, at) in _positions(buckets, tiered).items() if each.log_end > at}
    oldest = log.oldest_timestamps(info, missing) if missing else {}
    return Observation(now(), buckets, min(oldest.values(), default=None))


def partition_count(seen: Observation) -> int:
    """How many partitions the table had then."""
    return len({bucket.partition_id for bucket in seen.buckets} - {None})


class Observer:
    """Observations of all lake tables, by table id."""

    def __init__(self, book: Book, cluster: Cluster, lakes: Lakes, discovery: Discovery) -> None:
        self._book = book
        self._cluster = cluster
        self._lakes = lakes
        self._discovery = discovery
        self._lock = threading.Lock()
        self._seen: dict[int, Observation] = {}
        self._known: dict[int, tuple[Observation, TextOffsets | None, Pending]] = {}
        self._totals_seen: dict[int, tuple[int | None, datetime]] = {}
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="observe")
        self._closed = False

    def pending(self, record: TableRecord) -> Pending | None:
        """As last seen; None = never yet."""
        seen, tiered = self._seen.get(record.table_id), record.lake.offsets
        if seen is None:
            return None
        known = self._known.get(record.table_id)
        if known is None or known[0] is not seen or known[1] is not tiered:
            # Observations and offsets are replaced, never changed: what was made of the same two still holds.
            known = self._known[record.table_id] = (seen, tiered, pending(seen, tiered))
        return known[2]

    def partitions(self, table_id: int) -> int | None:
        """How many partitions the table had when last seen; None = never yet."""
        seen = self._seen.get(table_id)
        return None if seen is None else partition_count(seen)

    def observe(self, record: TableRecord) -> Pending | None:
        """Looks now; None if the cluster does not know the table or does not answer."""
        info = self._discovery.infos.get(record.table_id)
        if info is None:
            return None
        try:
            self._look(record, info)
        except LakewardError as error:
            _log.debug("offsets could not be observed", table=str(record.path), error=error.message)
        return self.pending(record)

    def observe_soon(self, table_id: int) -> None:
        """Looks at log and lake in the background."""
        with self._lock:
            if not self._closed:
                self._pool.submit(self._renew, table_id)

    def observe_all(self) -> None:
        """One round of the background: every table's offsets, and lake totals that are not fresh."""
        live = self._book.live()
        known = {record.table_id for record in live}
        for gone in [table_id for table_id in list(self._seen) if table_id not in known]:
            self._seen.pop(gone, None)
            self._known.pop(gone, None)
            self._totals_seen.pop(gone, None)
        for record in live:
            if self._closed:
                return
            self._renew(record.table_id)

    def refresh_for_a_look(self, records: Sequence[TableRecord]) -> None:
        """Renews what is older than a second, for few tables and a short time. Blocks: not for an event loop."""
        now = self._book.now().wall
        found = (record for record in records if self._is_stale(record.table_id, now))
        stale = list(islice(found, ON_DEMAND_TABLES + 1))
        if not stale or len(stale) > ON_DEMAND_TABLES:
            return
        looks: list[Future[Pending | None]] = []
        with self._lock:
            if not self._closed:
                looks = [self._pool.submit(self.observe, record) for record in stale]
        _, late = wait(looks, timeout=ON_DEMAND_SECONDS)
        for each in late:
            each.cancel()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _is_stale(self, table_id: int, now: datetime) -> bool:
        seen = self._seen.get(table_id)
        return seen is None or abs(now - seen.time) > FRESH_FOR

    def _renew(self, table_id: int) -> None:
        record = self._book.get(table_id)
        if record is not None:
            self.observe(record)
            self._observe_totals(record)

    def _look(self, record: TableRecord, info: TableInfo) -> None:
        seen = look(self._cluster, info, record.lake.offsets, lambda: self._book.now().wall)
        with self._lock:
            known = self._seen.get(record.table_id)
            if known is None or known.time <= seen.time:
                self._seen[record.table_id] = seen

    def _observe_totals(self, record: TableRecord) -> None:
        """Keeps the lake table's size in the record, so that it is known after a restart too."""
        now, lake = self._book.now().wall, record.lake
        snapshot, time = self._totals_seen.get(record.table_id, (None, datetime.min.replace(tzinfo=now.tzinfo)))
        if lake.snapshot_id is None or (snapshot == lake.snapshot_id and now - time < TOTALS_FRESH_FOR):
            return
        try:
            view = self._lakes.of(record.lake_format).view(record.path)
        except LakewardError as error:
            _log.debug("the lake table's size could not be observed", table=str(record.path), error=error.message)
            return
        self._totals_seen[record.table_id] = (lake.snapshot_id, now)
        if view is None:
            return
        with self._book.changing():
            latest = self._book.get(record.table_id)
            if latest is None:
                return
            measured = replace(latest.lake, records=view.records, size_bytes=view.size_bytes, files=view.files, location=view.location)
            if measured != latest.lake:
                self._book.put(Change(latest).update(lake=measured))
