"""The keeper of a tierer's lease: renewed in time, acquired again after a stall, released in the background."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.running.processes import wait_for
from tiering.errors import LakewardError, PeerTooOld, ServiceUnreachable, UnknownLease
from tiering.model.tables import BucketKey, TableBucket
from tiering.round.lease_keeper import RELEASE_ATTEMPTS, LeaseKeeper

TTL_MS = 600_000
"""Ten minutes, as a tierer requests them."""
RESTLESS_MS = 60
"""A lease whose keeper wakes up every 20 ms."""
ONE, TWO = TableBucket(1, BucketKey(None, 0)), TableBucket(1, BucketKey(None, 1))


class HandClock:
    """A `Clock` that the test moves. `looks` counts how often it was read: the keeper does so whenever it wakes up."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.steady_ms = 0
        self.looks = 0

    def now(self) -> datetime:
        self.looks += 1
        return self.time

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def move(self, milliseconds: int) -> None:
        """The wall clock alone, as where the machine is suspended."""
        self.time += timedelta(milliseconds=milliseconds)


class Cluster:
    """The lease calls of a coordinator; `fail` makes the next ones fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[TableBucket, int] | set[TableBucket]]] = []
        self.gone: set[TableBucket] = set()
        self.fail: list[LakewardError] = []
        self.dropped = threading.Event()
        self.ttl_ms = TTL_MS

    def _answer(self, name: str, argument: Any) -> None:
        self.calls.append((name, argument))
        if self.fail:
            raise self.fail.pop(0)

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        assert (lease_id, ttl_ms) == ("lease", self.ttl_ms)
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
    lease_keeper = LeaseKeeper(cluster, clock, "lease")
    yield lease_keeper
    lease_keeper.close()


@pytest.fixture
def restless_keeper(cluster: Any, clock: HandClock) -> Iterator[LeaseKeeper]:
    cluster.ttl_ms = RESTLESS_MS
    lease_keeper = LeaseKeeper(cluster, clock, "lease", RESTLESS_MS)
    yield lease_keeper
    lease_keeper.close()


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


def test_a_lease_is_renewed_in_time_whatever_the_wall_clock_is_set_to(keeper: LeaseKeeper, cluster: Cluster, clock: HandClock) -> None:
    keeper.acquire({ONE: 3}, Round())
    clock.move(-TTL_MS)
    clock.steady_ms += TTL_MS // 3 - 1
    assert keeper.renew()
    assert len(cluster.calls) == 1
    clock.steady_ms += 1
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


def test_a_lease_of_more_snapshots_names_those_already_leased(keeper: LeaseKeeper, cluster: Cluster) -> None:
    """The lease may be gone since the last call: a lease that is made anew would hold the new snapshots only."""
    loser, other = Round(), Round()
    keeper.acquire({ONE: 3}, loser)
    cluster.gone = {ONE}
    assert set(keeper.acquire({TWO: 4}, other)) == set()
    assert cluster.calls[-1] == ("acquire", {ONE: 3, TWO: 4})
    assert (len(loser.lost), other.lost) == (1, [])


def test_snapshots_whose_lease_may_have_come_about_are_released(keeper: LeaseKeeper, cluster: Cluster) -> None:
    keeper.acquire({ONE: 3}, Round())
    cluster.fail = [ServiceUnreachable("the answer was lost")]
    with pytest.raises(ServiceUnreachable):
        keeper.acquire({ONE: 5, TWO: 4}, Round())
    wait_for("the release of a snapshot without a holder", lambda: cluster.calls[2:] == [("release", {TWO})])


def test_a_release_that_keeps_failing_is_logged_once_and_left_to_expiry(
    restless_keeper: LeaseKeeper, cluster: Cluster, clock: HandClock
) -> None:
    ended = Round()
    restless_keeper.acquire({ONE: 3}, ended)
    cluster.fail = [ServiceUnreachable("away")] * 99
    with capture_logs() as logs:
        restless_keeper.release(ended)
        wait_for("the last attempt", lambda: len(logs) == 1)
        cluster.fail.clear()
        looks = clock.looks
        wait_for("two more turns of the keeper", lambda: clock.looks >= looks + 3)
        restless_keeper.acquire({TWO: 4}, Round())
    assert [name for name, _ in cluster.calls] == ["acquire", *["release"] * RELEASE_ATTEMPTS, "acquire"]
    assert "cannot release KV snapshots; it expires by itself" in logs[0]["event"]


def test_while_others_keep_the_lease_alive_a_release_is_tried_again(restless_keeper: LeaseKeeper, cluster: Cluster) -> None:
    ended = Round()
    restless_keeper.acquire({ONE: 3}, ended)
    restless_keeper.acquire({TWO: 4}, Round())
    cluster.fail = [ServiceUnreachable("away")] * (2 * RELEASE_ATTEMPTS)
    with capture_logs() as logs:
        restless_keeper.release(ended)
        wait_for("one warning", lambda: len(logs) == 1)
        wait_for("a second try", lambda: len(cluster.calls) >= 3 + 2 * RELEASE_ATTEMPTS)
    assert cluster.calls[2:] == [("release", {ONE})] * (1 + 2 * RELEASE_ATTEMPTS)
    assert len(logs) == 1


def test_the_release_of_an_older_round_leaves_the_newer_ones_snapshot_alone(keeper: LeaseKeeper, cluster: Cluster) -> None:
    older, newer = Round(), Round()
    keeper.acquire({ONE: 3}, older)
    keeper.acquire({ONE: 5}, newer)
    keeper.release(older)
    keeper.acquire({TWO: 1}, newer)
    assert all(name == "acquire" for name, _ in cluster.calls)


def test_a_coordinator_without_leases_is_gone_on_with(keeper: LeaseKeeper, cluster: Cluster) -> None:
    cluster.fail = [PeerTooOld("UNIMPLEMENTED")]
    with capture_logs() as logs:
        for holder in (Round(), Round()):
            assert not keeper.acquire({ONE: 3}, holder)
            keeper.release(holder)
    assert len(cluster.calls) == 1
    assert [(log["log_level"], "without leases" in log["event"]) for log in logs] == [("warning", True)]


def test_closing_drops_the_lease(cluster: Any, clock: HandClock) -> None:
    keeper = LeaseKeeper(cluster, clock, "lease", TTL_MS)
    keeper.acquire({ONE: 3}, Round())
    keeper.close()
    assert cluster.dropped.wait(5)


def test_closing_waits_no_longer_than_a_second_for_a_coordinator_that_hangs(clock: HandClock) -> None:
    hanging = Cluster()
    answered, drop_requested, given_up = threading.Event(), threading.Event(), threading.Event()

    def hang(lease_id: str) -> None:
        drop_requested.set()
        if not answered.wait(60):
            given_up.set()

    hanging.drop_lease = hang  # type: ignore[method-assign]
    keeper = LeaseKeeper(hanging, clock, "lease", TTL_MS)  # type: ignore[arg-type]
    keeper.acquire({ONE: 3}, Round())
    keeper.close()
    assert not given_up.is_set(), "closing waited for the answer"
    assert drop_requested.wait(60)
    answered.set()


@pytest.mark.parametrize("defect", [ValueError("a closed channel"), BaseException("a panic")])
def test_a_defect_does_not_end_the_keeping_of_the_lease(restless_keeper: LeaseKeeper, cluster: Cluster, defect: BaseException) -> None:
    ended = Round()
    restless_keeper.acquire({ONE: 3}, ended)
    restless_keeper.acquire({TWO: 4}, Round())
    cluster.fail = [defect]  # type: ignore[list-item]
    with capture_logs() as logs:
        restless_keeper.release(ended)
        wait_for("the defect in the log", lambda: len(logs) == 1)
    wait_for("a second try", lambda: len(cluster.calls) >= 4)
    assert cluster.calls[2:4] == [("release", {ONE})] * 2
