"""Keeps the KV snapshots of this tierer's rounds alive with one lease for all of them, renewed after each third of its duration.

Releases happen in the background and are best effort: a snapshot that is not released expires with the lease. While other rounds keep the
lease alive, nothing expires, so a failed release is repeated at each renewal. Calls about the lease are made one after another, and a
bucket that was leased again in the meantime is not released. The lease id is not persisted: the lease of a tierer that dies expires.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from tiering.clock import Clock
from tiering.errors import LakewardError, PeerTooOld, UnknownLease
from tiering.instants import to_milliseconds
from tiering.model.tables import TableBucket
from tiering.round.ports import LeaseHolder, Transport

log = structlog.get_logger(__name__)

LEASE_TTL_MS = 600_000
"""Ten minutes: the snapshots of a dead tierer are freed soon, and a pause of some minutes does no harm (DESIGN 6 step 4)."""
RETRY_MS = 5_000
"""Delay after a failed renewal."""
RELEASE_ATTEMPTS = 3
CLOSE_SECONDS = 1.0


@dataclass(frozen=True)
class _LeasedSnapshot:
    snapshot_id: int
    holder: LeaseHolder


class LeaseKeeper:
    """Implements `SnapshotLeases`. Its methods may be called from several threads; `close` drops the lease."""

    def __init__(self, transport: Transport, clock: Clock, lease_id: str, ttl_ms: int = LEASE_TTL_MS) -> None:
        self._transport = transport
        self._clock = clock
        self._lease_id = lease_id
        self._ttl_ms = ttl_ms
        self._calls = threading.Lock()
        """Locked during every call, so that calls reach the coordinator in the order in which they were made."""
        self._lock = threading.Lock()
        self._leased: dict[TableBucket, _LeasedSnapshot] = {}
        self._to_release: set[TableBucket] = set()
        self._renewed_ms = (0, 0)
        """Time of the last renewal by the wall clock and by the monotonic clock. Guarded by `_calls`."""
        self._wake = threading.Event()
        self._closed = False
        self._unsupported = False
        self._failed: set[str] = set()
        """Purposes of calls that failed and were logged. A warning is logged once, until the call succeeds again."""
        self._thread: threading.Thread | None = None

    def acquire(self, snapshots: Mapping[TableBucket, int], holder: LeaseHolder) -> Collection[TableBucket]:
        """Implements `SnapshotLeases.acquire`. Names all leased snapshots again, because the lease may have lapsed during a stall or a
        CALL.
        """
        with self._calls:
            if self._unsupported:
                return ()
            other_snapshots = {bucket: snapshot_id for bucket, snapshot_id in self._all_snapshot_ids().items() if bucket not in snapshots}
            try:
                unavailable = set(self._transport.acquire_lease(self._lease_id, self._ttl_ms, {**other_snapshots, **snapshots}))
            except PeerTooOld as error:
                self._unsupported = True
                log.warning("KV snapshots are read without leases: the coordinator does not support them", error=error.message)
                return ()
            except LakewardError:  # the request may have arrived nevertheless
                self._release_later(bucket for bucket in snapshots if bucket not in self._leased)
                raise
            with self._lock:
                self._to_release.difference_update(snapshots)
                for bucket, snapshot_id in snapshots.items():
                    if bucket not in unavailable:
                        self._leased[bucket] = _LeasedSnapshot(snapshot_id, holder)
                self._ensure_thread()
            self._renewed_ms = self._times_ms()
            self._lose(unavailable & other_snapshots.keys())
        return unavailable & snapshots.keys()

    def release(self, holder: LeaseHolder) -> None:
        """Implements `SnapshotLeases.release`."""
        with self._lock:
            buckets = {bucket for bucket, snapshot in self._leased.items() if snapshot.holder is holder}
            for bucket in buckets:
                del self._leased[bucket]
        if buckets:
            self._release_later(buckets)

    def _release_later(self, buckets: Iterable[TableBucket]) -> None:
        with self._lock:
            self._to_release.update(buckets)
            self._ensure_thread()
        self._wake.set()

    def close(self) -> None:
        """Drops the lease in the background, best effort; waits at most CLOSE_SECONDS for that."""
        with self._lock:
            self._closed = True
            self._leased.clear()
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _ensure_thread(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._renew_and_release, name="lease", daemon=True)
            self._thread.start()

    def _renew_and_release(self) -> None:
        delay_ms = self._ttl_ms // 3
        while True:
            self._wake.wait(delay_ms / 1_000)
            self._wake.clear()
            if self._closed:
                break
            try:
                self._release_pending()
                delay_ms = self._ttl_ms // 3 if self.renew() else min(RETRY_MS, self._ttl_ms // 3)
            except BaseException:  # without this thread the lease would expire, and with it the snapshots of all rounds
                log.exception("the lease on KV snapshots could not be maintained; retrying", lease_id=self._lease_id)
                delay_ms = min(RETRY_MS, self._ttl_ms // 3)
        self._best_effort("drop the lease", lambda: self._transport.drop_lease(self._lease_id))

    def _release_pending(self) -> None:
        with self._lock:
            if not self._to_release:
                return
        done = self._best_effort("release KV snapshots", self._release_now)
        with self._lock:
            if not done and not self._leased:  # a lease without snapshots is not renewed: it expires
                self._to_release.clear()

    def _release_now(self) -> None:
        """Releases the buckets. Called under `_calls`, so no bucket can be leased again before it is removed from `_to_release`."""
        with self._lock:
            buckets = set(self._to_release)
        if buckets:
            self._transport.release_lease(self._lease_id, buckets)
        with self._lock:
            self._to_release -= buckets

    def _best_effort(self, purpose: str, call: Callable[[], None]) -> bool:
        """Returns True if one of RELEASE_ATTEMPTS succeeded; otherwise the lease is left to its expiry."""
        retrying = Retrying(
            retry=retry_if_exception_type(LakewardError),
            stop=stop_after_attempt(RELEASE_ATTEMPTS),
            wait=wait_exponential_jitter(multiplier=0.1, max=2),
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt, self._calls:
                    call()
        except LakewardError as error:
            if purpose not in self._failed:
                log.warning(f"cannot {purpose}; it expires by itself", lease_id=self._lease_id, error=error.message)
            self._failed.add(purpose)
            return False
        self._failed.discard(purpose)
        return True

    def renew(self) -> bool:
        """Renews the lease when a third of its duration is over; returns False if that failed. After a stall, acquires all snapshots again.

        The coordinator may have swept a lapsed lease, and deleted its snapshots. The holders of lost snapshots are notified.
        """
        with self._calls:
            leased, age_ms = self._all_snapshot_ids(), self._age_ms()
            if not leased or age_ms < self._ttl_ms // 3:
                return True
            try:
                lost = self._renewed(leased if age_ms >= self._ttl_ms else {}, leased)
            except LakewardError as error:
                log.warning("cannot renew the lease on KV snapshots; retrying", lease_id=self._lease_id, error=error.message)
                return False
            self._renewed_ms = self._times_ms()
            self._lose(lost)
        return True

    def _renewed(self, named: Mapping[TableBucket, int], leased: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        """Renews the lease and returns the buckets of `leased` whose snapshots are lost. If the coordinator does not know the lease any
        more, acquires all of them again.
        """
        try:
            return self._transport.acquire_lease(self._lease_id, self._ttl_ms, named)
        except UnknownLease:
            return self._transport.acquire_lease(self._lease_id, self._ttl_ms, leased)

    def _all_snapshot_ids(self) -> dict[TableBucket, int]:
        with self._lock:
            return {bucket: snapshot.snapshot_id for bucket, snapshot in self._leased.items()}

    def _lose(self, buckets: Collection[TableBucket]) -> None:
        """Notifies the holders of snapshots that these no longer exist."""
        with self._lock:
            holders = [self._leased.pop(bucket).holder for bucket in buckets if bucket in self._leased]
        for holder in holders:
            holder.lose_snapshots("a KV snapshot was deleted after its lease had lapsed")

    def _age_ms(self) -> int:
        """Returns the time since the last renewal, by the clock that shows more. The monotonic clock may stand still while the machine is
        suspended, although the lease runs on; the wall clock may be set back.
        """
        return max(now - then for now, then in zip(self._times_ms(), self._renewed_ms, strict=True))

    def _times_ms(self) -> tuple[int, int]:
        return to_milliseconds(self._clock.now()), self._clock.monotonic_ms()
