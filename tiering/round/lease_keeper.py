"""Keeps the KV snapshots of this tierer's rounds alive: one lease for all of them, renewed at a third of its time.

Releases happen in the background and are best effort: a snapshot that is not released expires with the lease. While other rounds keep
the lease alive nothing expires, so then a release is tried again with each renewal. Calls about the lease are made one after another,
and a bucket that was leased again meanwhile is not released. The lease id is not persisted: a tierer that dies leaves its lease to expiry.
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
"""Ten minutes: a tierer that died frees its snapshots soon, and a pause of some minutes costs nothing (DESIGN 6 step 4)."""
RETRY_MS = 5_000
"""After a renewal that failed."""
RELEASE_ATTEMPTS = 3
CLOSE_SECONDS = 1.0


@dataclass(frozen=True)
class _LeasedSnapshot:
    snapshot_id: int
    holder: LeaseHolder


class LeaseKeeper:
    """A `SnapshotLeases`. Its methods may be called from several threads; `close` drops the lease."""

    def __init__(self, transport: Transport, clock: Clock, lease_id: str, ttl_ms: int = LEASE_TTL_MS) -> None:
        self._transport = transport
        self._clock = clock
        self._lease_id = lease_id
        self._ttl_ms = ttl_ms
        self._calls = threading.Lock()
        """Held during every call: they reach the coordinator in the order in which they were meant."""
        self._lock = threading.Lock()
        self._held: dict[TableBucket, _LeasedSnapshot] = {}
        self._to_release: set[TableBucket] = set()
        self._renewed_ms = (0, 0)
        """By the wall clock and by the monotonic one. Guarded by `_calls`."""
        self._wake = threading.Event()
        self._closed = False
        self._unsupported = False
        self._failed: set[str] = set()
        """Calls that fail and were logged: a warning comes once, until the call succeeds again."""
        self._thread: threading.Thread | None = None

    def acquire(self, snapshots: Mapping[TableBucket, int], holder: LeaseHolder) -> Collection[TableBucket]:
        """As `SnapshotLeases.acquire`. Names all held snapshots again: after a stall or a CALL the lease may be gone."""
        with self._calls:
            if self._unsupported:
                return ()
            others = {bucket: snapshot_id for bucket, snapshot_id in self._all_held().items() if bucket not in snapshots}
            try:
                unavailable = set(self._transport.acquire_lease(self._lease_id, self._ttl_ms, {**others, **snapshots}))
            except PeerTooOld as error:
                self._unsupported = True
                log.warning("KV snapshots are read without leases: nobody keeps any", error=error.message)
                return ()
            except LakewardError:  # the request may have arrived all the same
                self._release_later(bucket for bucket in snapshots if bucket not in self._held)
                raise
            with self._lock:
                self._to_release.difference_update(snapshots)
                for bucket, snapshot_id in snapshots.items():
                    if bucket not in unavailable:
                        self._held[bucket] = _LeasedSnapshot(snapshot_id, holder)
                self._ensure_thread()
            self._renewed_ms = self._times_ms()
            self._lose(unavailable & others.keys())
        return unavailable & snapshots.keys()

    def release(self, holder: LeaseHolder) -> None:
        """As `SnapshotLeases.release`."""
        with self._lock:
            buckets = {bucket for bucket, held in self._held.items() if held.holder is holder}
            for bucket in buckets:
                del self._held[bucket]
        if buckets:
            self._release_later(buckets)

    def _release_later(self, buckets: Iterable[TableBucket]) -> None:
        with self._lock:
            self._to_release.update(buckets)
            self._ensure_thread()
        self._wake.set()

    def close(self) -> None:
        """Drops the lease in the background, best effort; waits for that no longer than CLOSE_SECONDS."""
        with self._lock:
            self._closed = True
            self._held.clear()
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
            except BaseException:  # without this thread the snapshots of all rounds would go with the lease
                log.exception("the lease on KV snapshots was not kept; trying again", lease_id=self._lease_id)
                delay_ms = min(RETRY_MS, self._ttl_ms // 3)
        self._best_effort("drop the lease", lambda: self._transport.drop_lease(self._lease_id))

    def _release_pending(self) -> None:
        with self._lock:
            if not self._to_release:
                return
        done = self._best_effort("release KV snapshots", self._release_now)
        with self._lock:
            if not done and not self._held:  # a lease that holds nothing is not renewed: it expires
                self._to_release.clear()

    def _release_now(self) -> None:
        """Releases the buckets. Called under `_calls`: no bucket can be leased again before it is forgotten here."""
        with self._lock:
            buckets = set(self._to_release)
        if buckets:
            self._transport.release_lease(self._lease_id, buckets)
        with self._lock:
            self._to_release -= buckets

    def _best_effort(self, purpose: str, call: Callable[[], None]) -> bool:
        """True if one of RELEASE_ATTEMPTS went well; otherwise the lease is left to its expiry."""
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
        """Renews the lease when a third of its time is over; False if that failed. After a stall everything held is acquired again.

        A lease that lapsed may have been swept, and its snapshots with it: the holders of those are told.
        """
        with self._calls:
            held, age_ms = self._all_held(), self._age_ms()
            if not held or age_ms < self._ttl_ms // 3:
                return True
            try:
                lost = self._renewed(held if age_ms >= self._ttl_ms else {}, held)
            except LakewardError as error:
                log.warning("cannot renew the lease on KV snapshots; trying again", lease_id=self._lease_id, error=error.message)
                return False
            self._renewed_ms = self._times_ms()
            self._lose(lost)
        return True

    def _renewed(self, named: Mapping[TableBucket, int], held: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        """Renews the lease and returns the buckets of `held` that are lost. If the service does not know the lease any more, it acquires
        all again.
        """
        try:
            return self._transport.acquire_lease(self._lease_id, self._ttl_ms, named)
        except UnknownLease:
            return self._transport.acquire_lease(self._lease_id, self._ttl_ms, held)

    def _all_held(self) -> dict[TableBucket, int]:
        with self._lock:
            return {bucket: held.snapshot_id for bucket, held in self._held.items()}

    def _lose(self, buckets: Collection[TableBucket]) -> None:
        """Tells the holders of snapshots that these are gone."""
        with self._lock:
            holders = [self._held.pop(bucket).holder for bucket in buckets if bucket in self._held]
        for holder in holders:
            holder.lose_snapshots("a KV snapshot was deleted after its lease had lapsed")

    def _age_ms(self) -> int:
        """Since the last renewal, by the clock that says more: the monotonic one may stand still while the machine is suspended, as the
        lease does not, and the wall clock may be set back.
        """
        return max(now - then for now, then in zip(self._times_ms(), self._renewed_ms, strict=True))

    def _times_ms(self) -> tuple[int, int]:
        return to_milliseconds(self._clock.now()), self._clock.monotonic_ms()
