"""The keeper of a tierer's lease: renewed in time, acquired again after a stall, released in the background."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.processes import wait_for
from tiering.errors import LakewardError, PeerTooOld, ServiceUnreachable, UnknownLease
from tiering.model import BucketKey, TableBucket
from tiering.round.leases import LeaseKeeper

TTL_MS = 600_000
ONE, TWO = TableBucket(1, BucketKey(None, 0)), TableBucket(1, BucketKey(None, 1))


class HandClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic_ms(self) -> int:
        return 0

    def move(self, milliseconds: int) -> None:
        self.time += timedelta(milliseconds=milliseconds)


class Cluster:
    """The lease calls of a coordinator; `fail` makes the next ones fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[TableBucket, int] | set[TableBucket]]] = []
        self.gone: set[TableBucket] = set()
        self.fail: list[LakewardError] = []
        self.dropped = threading.Event()

    def _answer(self, name: str, what: Any) -> None:
        self.calls.append((name, what))
        if self.fail:
            raise self.fail.pop(0)

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        assert (lease_id, ttl_ms) == ("lease", TTL_MS)
        self._answer("acquire", dict(snapshots))
        return {bucket for bucket in snapshots if bucket in self.gone}

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        self._answer("release", set(buckets))

    def drop_lease(self, lease_id: str) -> None:
        self._answer("drop", set())
        self.dropped.set()


class Round:
    def __init__(self) -> None:
        self.lost: list[str] = []

    def lose_snapshots(self, message: str) -> None:
        self.lost.append(message)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def keeper(cluster: Any, clock: HandClock) -> Iterator[LeaseKeeper]:
    made = LeaseKeeper(cluster, clock, "lease", TTL_MS)
    yield made
    made.close()


def test_what_is_not_there_any_more_is_said_and_not_held(keeper: LeaseKeeper, cluster: Cluster, clock: HandClock) -> None:
    cluster.gone = {TWO}
    assert set(keeper.acquire({ONE: 3, TWO: 4}, Round())) == {TWO}
    clock.move(TTL_MS)
    assert keeper.renew()
    assert cluster.calls[-1] == ("acquire", {ONE: 3})


def test_a_lease_is_renewed_with_an_empty_list_once_a_third_of_its_time_is_over(
    keeper: LeaseKeeper, cluster: Cluster, clock: HandClock
) -> None:
    keeper.acquire({ONE: 3}, Round())
    clock.move(TTL_MS // 3 - 1)
    assert keeper.renew()
    assert len(cluster.calls) == 1
    clock.move(1)
    assert keeper.renew()
    assert cluster.calls[1:] == [("acquire", {})]


@pytest.mark.parametrize("stall_ms", [TTL_MS, TTL_MS // 2])
def test_after_a_lapse_everything_is_acquired_again_and_who_lost_a_snapshot_is_told(
    keeper: LeaseKeeper, cluster: Cluster, clock: HandClock, stall_ms: int
) -> None:
    loser, winner = Round(), Round()
    keeper.acquire({ONE: 3}, loser)
    keeper.acquire({TWO: 4}, winner)
    cluster.gone = {ONE}
    if stall_ms < TTL_MS:  # the server dropped the lease, whatever this clock says
        cluster.fail = [UnknownLease("no such lease")]
    clock.move(stall_ms)
    assert keeper.renew()
    assert cluster.calls[-1] == ("acquire", {ONE: 3, TWO: 4})
    assert (len(loser.lost), winner.lost) == (1, [])


def test_a_renewal_that_failed_is_tried_again(keeper: LeaseKeeper, cluster: Cluster, clock: HandClock) -> None:
    keeper.acquire({ONE: 3}, Round())
    clock.move(TTL_MS // 2)
    cluster.fail = [ServiceUnreachable("away")]
    assert not keeper.renew()
    assert keeper.renew()


def test_a_round_that_ended_is_released_in_the_background_and_only_it(keeper: LeaseKeeper, cluster: Cluster) -> None:
    first, second = Round(), Round()
    keeper.acquire({ONE: 3}, first)
    keeper.acquire({TWO: 4}, second)
    cluster.fail = [ServiceUnreachable("away")]
    keeper.release(first)
    wait_for("the release, after one attempt that failed", lambda: cluster.calls[2:] == [("release", {ONE})] * 2)


def test_the_release_of_an_older_round_leaves_the_newer_ones_snapshot_alone(keeper: LeaseKeeper, cluster: Cluster) -> None:
    older, newer = Round(), Round()
    keeper.acquire({ONE: 3}, older)
    keeper.acquire({ONE: 5}, newer)
    keeper.release(older)
    keeper.acquire({TWO: 1}, newer)
    assert all(name == "acquire" for name, _ in cluster.calls)


def test_a_coordinator_without_leases_is_gone_on_with(keeper: LeaseKeeper, cluster: Cluster) -> None:
    cluster.fail = [PeerTooOld("UNIMPLEMENTED")]
    assert not keeper.acquire({ONE: 3}, Round())
    assert not keeper.acquire({ONE: 3}, Round())
    assert len(cluster.calls) == 1


def test_closing_drops_the_lease(cluster: Any, clock: HandClock) -> None:
    keeper = LeaseKeeper(cluster, clock, "lease", TTL_MS)
    keeper.acquire({ONE: 3}, Round())
    keeper.close()
    assert cluster.dropped.wait(5)
