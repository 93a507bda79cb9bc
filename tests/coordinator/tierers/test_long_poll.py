"""Held requests over real gRPC: woken, timed out, replaced, abandoned (DESIGN 4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from support.services.served import OPTIONS, Served, many, over_grpc
from support.worlds.calling import until
from support.worlds.coordinator_world import BEGINS, World
from tiering.coordinator.tierers.heartbeats import Heartbeats, HeldRequest
from tiering.rpc.v1 import coordinator_pb2 as pb


def test_a_held_request_is_answered_as_soon_as_a_table_is_due() -> None:
    async def test(served: Served) -> None:
        served.world.clock.advance(BEGINS - 10)
        [held] = await served.held(served.world.tierer())
        served.world.clock.advance(10)
        assert (await held).tiering_table.table_id == 1

    over_grpc(test)


def test_a_held_request_ends_without_a_table_after_its_wait() -> None:
    async def test(served: Served) -> None:
        [held] = await served.held(served.world.tierer())
        served.world.clock.advance(29)
        served.world.coordinator.advance()
        await asyncio.to_thread(served.world.coordinator.advance)
        assert not held.done()
        served.world.clock.advance(1)
        assert not (await held).HasField("tiering_table")

    over_grpc(test)


def test_no_request_is_held_for_a_third_of_the_service_timeout() -> None:
    async def test(served: Served) -> None:
        [held] = await served.held(served.world.tierer())
        served.world.clock.advance(3)
        assert not (await held).HasField("tiering_table")

    over_grpc(test, World(options=replace(OPTIONS, service_timeout_ms=9_000)))


def test_a_newer_heartbeat_ends_a_held_one_without_a_table() -> None:
    async def test(served: Served) -> None:
        served.world.clock.advance(BEGINS - 10)
        tierer = served.world.tierer()
        [held] = await served.held(tierer)
        await served.heartbeat(tierer)
        assert not (await held).HasField("tiering_table")
        [newest] = await served.held(tierer)
        served.world.clock.advance(10)
        assert (await newest).HasField("tiering_table")

    over_grpc(test)


def test_a_request_with_a_report_is_answered_at_once() -> None:
    async def test(served: Served) -> None:
        served.world.clock.advance(180)
        tierer = served.world.tierer()
        assignment = (await served.heartbeat(tierer, request=True, max_wait_ms=30_000)).tiering_table
        report = tierer.about(assignment, empty=True)
        response = await served.heartbeat(tierer, request=True, max_wait_ms=30_000, finished=(report,))
        assert not response.finished_table_resp[0].HasField("error")

    over_grpc(test)


def test_two_held_tierers_get_a_table_each_and_never_the_same() -> None:
    async def test(served: Served) -> None:
        held = await served.held(*(served.world.tierer(name) for name in ("one", "two", "three")))
        served.world.clock.advance(5)
        await until(lambda: sum(request.done() for request in held) == 2)
        assert {request.result().tiering_table.table_id for request in held if request.done()} == {1, 2}
        served.world.clock.advance(40)
        await asyncio.gather(*held)

    over_grpc(test, many(2, freshness_ms=5_000))


def test_a_held_request_whose_client_went_away_takes_no_table() -> None:
    async def test(served: Served) -> None:
        call = served.tierers.LakeTieringHeartbeat(served.world.tierer("gone").message(request=True, max_wait_ms=30_000))
        await until(lambda: served.world.coordinator.table_records.wake_ups.waiting == 1)
        call.cancel()
        await until(lambda: served.world.coordinator.table_records.wake_ups.waiting == 0)
        served.world.clock.advance(180)
        await until(lambda: served.world.state() == "Pending")
        assert (await served.heartbeat(served.world.tierer("other"), request=True)).HasField("tiering_table")

    over_grpc(test)


def test_one_table_is_tried_for_by_one_of_many_held_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others need no thread to see that it is gone: of hundreds each change would cost a core."""
    tries: list[object] = []
    try_again = Heartbeats.try_again

    def counted(self: Heartbeats, hold: HeldRequest) -> pb.LakeTieringHeartbeatResponse | None:
        tries.append(hold)
        return try_again(self, hold)

    monkeypatch.setattr(Heartbeats, "try_again", counted)

    async def test(served: Served) -> None:
        served.world.clock.advance(BEGINS - 10)
        held = await served.held(*(served.world.tierer(f"tierer-{number}") for number in range(20)))
        tries.clear()
        served.world.clock.advance(10)
        done, _ = await asyncio.wait(held, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert [call.result().tiering_table.table_id for call in done] == [1]
        assert len(tries) <= 2
        served.world.clock.advance(31)
        await asyncio.gather(*held)

    over_grpc(test)
