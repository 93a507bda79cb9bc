"""The reads that are open now. They are in memory, and a ticket tells everything about its read.

What reads need that an earlier coordinator opened is in the store (`stored_holds`). So a coordinator that takes over keeps it, also before
the tickets of these reads arrive.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions.records import ReadHold, from_text, to_text
from tiering.errors import ReadExpired, ServiceBusy
from tiering.model.reading.open_reads import AGAIN, READ_TTL, OpenRead
from tiering.model.tables import BucketKey

MAX_OPEN_READS = 20_000
"""Upper bound of open reads. A read without a close stays open for UNRENEWED_TTL, so this is some 5 statements a second of such readers."""

_SHARE = 2
"""One principal may have the total divided by this."""

OPENING_LIMIT = timedelta(minutes=1)
"""How long reads of a table that are being opened keep everything of the table. An opening takes seconds. Without a limit, openings that
overlap without a gap, or one that hangs, would stop the retention of the log and the expiry of snapshots for ever."""


class OpenReads:
    """The open reads. It is thread-safe."""

    def __init__(self, now: Callable[[], datetime], holds: Sequence[ReadHold] = ()) -> None:
        """`holds`: what reads need that an earlier process opened, and that may still run."""
        self._now = now
        self._started_at = now()
        self._lock = threading.Lock()
        self._holds = holds
        self._reads: dict[str, OpenRead] = {}
        self._closed: dict[str, datetime] = {}
        """The time until which a ticket of a closed read may be valid, by read id."""
        self._opening: Counter[int] = Counter()
        self._opening_since: dict[int, datetime] = {}
        """By table the time from which on at least one read was being opened."""
        self._of_principals: Counter[str] = Counter()

    @contextmanager
    def opening(self, table_id: int) -> Iterator[None]:
        """Keeps everything of the table during the block, which plans a read of it, but for no longer than OPENING_LIMIT."""
        with self._lock:
            self._opening_since.setdefault(table_id, self._now())
            self._opening[table_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._opening[table_id] -= 1
                if not self._opening[table_id]:
                    del self._opening[table_id], self._opening_since[table_id]

    def check_room(self, principal: str, read_id: str = "") -> None:
        """Raises ServiceBusy if there are too many open reads, in total or of the principal, unless `read_id` is open already."""
        with self._lock:
            if read_id in self._reads:
                return
            of_principal = self._of_principals[principal] if principal else 0
            if len(self._reads) >= MAX_OPEN_READS or of_principal >= MAX_OPEN_READS // _SHARE:
                raise ServiceBusy(
                    f"{len(self._reads)} reads of tables are open: the service opens no more",
                    hint="Close reads that have ended, or wait. The reads of the Spark source `lakeward` end after their `keepFor`.",
                )

    def renew(self, read: OpenRead) -> OpenRead:
        """Opens the read, or extends its time, and returns it with its new times. It may be unknown, because the coordinator restarted.

        Raises ReadExpired if it was closed.
        """
        with self._lock:
            self._check_not_closed(read)
            renewed = self.renewed(self._merged(read))
            self._put(renewed)
            return renewed

    def renewed(self, read: OpenRead) -> OpenRead:
        """Returns the read with the times of a renewal now. The time for which it was opened is never shortened."""
        now = self._now()
        return replace(read, renewed_at=now, expires_at=max(read.expires_at, now + READ_TTL))

    def keep(self, read: OpenRead) -> None:
        """Opens a read. A read of a stream is moved: its moment and its times replace those before."""
        with self._lock:
            entered = self._reads.get(read.read_id)
            self._put(read if entered is None else replace(read, opened_at=entered.opened_at))

    def check(self, read: OpenRead) -> OpenRead:
        """Returns the read of a ticket, merged with what is known of it since. Enters it if it is unknown.

        Raises ReadExpired if it was closed or its time is over. A read that ended while no coordinator ran is not an error as long as a
        hold keeps what it needs. It is entered once it is renewed.
        """
        with self._lock:
            self._check_not_closed(read)
            merged = self._merged(read)
            if merged.expires_at <= self._now():
                if self._is_inherited(merged):
                    return merged
                raise ReadExpired(
                    f"the read of {read.moment.path} expired at {read.expires_at:%H:%M:%S} UTC, because it was not renewed",
                    hint=AGAIN,
                    table_path=read.moment.path,
                )
            self._put(merged)
            return merged

    def close(self, read: OpenRead) -> None:
        """Ends the read. A repeat has no effect."""
        with self._lock:
            ended = self._take(read.read_id) or read
            self._closed[read.read_id] = max(ended.expires_at, read.expires_at)

    def expire(self) -> list[OpenRead]:
        """Ends the reads whose time is over, and returns them."""
        with self._lock:
            now = self._now()
            self._closed = {read_id: until for read_id, until in self._closed.items() if until > now}
            expired = [read for read in self._reads.values() if read.expires_at <= now]
            for read in expired:
                self._take(read.read_id)
            return expired

    def all(self) -> tuple[OpenRead, ...]:
        """Returns the open reads, the oldest first."""
        with self._lock:
            reads = tuple(self._reads.values())
        return tuple(sorted(reads, key=lambda read: (read.opened_at, read.read_id)))

    def may_remove(self, table_id: int) -> bool:
        """Returns whether it is known what all reads of the table need: none is being opened.

        After OPENING_LIMIT, reads that are being opened no longer count. If one loses something, its statement ends with an error such as
        LogTruncated.
        """
        with self._lock:
            since = self._opening_since.get(table_id)
            return since is None or self._now() - since >= OPENING_LIMIT

    def kept_snapshots(self, table_id: int) -> frozenset[int] | None:
        """Returns the lake snapshots that open reads of the table need; None = unknown."""
        if not self.may_remove(table_id):
            return None
        needed = {read.moment.lake_snapshot_id for read in self._of_table(table_id)}
        needed |= {hold.lake_snapshot_id for hold in self._holds_of(table_id)}
        return frozenset(snapshot_id for snapshot_id in needed if snapshot_id is not None)

    def kept_log(self, table_id: int) -> dict[BucketKey, int] | None:
        """Returns, per bucket, the lowest offset that open reads of the table need from the log; None = unknown."""
        if not self.may_remove(table_id):
            return None
        lowest: dict[BucketKey, int] = {}
        of_reads = (read.moment.log_starts for read in self._of_table(table_id))
        for starts in (*of_reads, *(from_text(hold.log) for hold in self._holds_of(table_id))):
            for bucket, start in starts.items():
                lowest[bucket] = min(start, lowest.get(bucket, start))
        return lowest

    def _of_table(self, table_id: int) -> list[OpenRead]:
        with self._lock:
            return [read for read in self._reads.values() if read.moment.table_id == table_id]

    def _holds_of(self, table_id: int) -> list[ReadHold]:
        now = self._now()
        return [hold for hold in self._holds if hold.table_id == table_id and hold.until > now]

    def _is_inherited(self, read: OpenRead) -> bool:
        """Returns whether an earlier coordinator issued the ticket of the read, and its hold still keeps what the read needs."""
        moment, log, now = read.moment, to_text(read.moment.log_starts), self._now()
        holds = self._holds_of(moment.table_id) if read.renewed_at < self._started_at else ()
        return any(hold.covers(moment.lake_snapshot_id, log, now) for hold in holds)

    def _merged(self, read: OpenRead) -> OpenRead:
        """Returns the read of a ticket with the latest times, and with the beginning of the changelog that was fixed first.

        A ticket may be older than what is known, because another call is on its way. What is known may lack what a ticket has, because the
        coordinator restarted.
        """
        entered = self._reads.get(read.read_id)
        if entered is None:
            return read
        latest = max(entered, read, key=lambda version: version.expires_at)
        starts = entered.moment.changelog_starts or read.moment.changelog_starts
        return replace(latest, moment=replace(latest.moment, changelog_starts=starts))

    def _check_not_closed(self, read: OpenRead) -> None:
        if read.read_id in self._closed:
            raise ReadExpired(f"the read of {read.moment.path} was closed", hint=AGAIN, table_path=read.moment.path)

    def _put(self, read: OpenRead) -> None:
        if read.read_id not in self._reads:
            self._of_principals[read.principal] += 1
        self._reads[read.read_id] = read

    def _take(self, read_id: str) -> OpenRead | None:
        read = self._reads.pop(read_id, None)
        if read is not None:
            self._of_principals[read.principal] -= 1
            if not self._of_principals[read.principal]:
                del self._of_principals[read.principal]
        return read
