"""A lake, or a cluster, that hangs: what has to wait for it waits in a place of its own, and everything else goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from support.clusters.memory_cluster import log_table
from support.services.served import OPTIONS, Served, error_of, over_grpc
from support.worlds.calling import until
from support.worlds.coordinator_world import HandTierer, World
from tiering import errors
from tiering.model.tables import TablePath, TableType
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.skip_record import SkipRecord
from tiering.rpc.v1 import common_pb2, status_pb2
from tiering.rpc.v1 import coordinator_pb2 as pb

REPEATS = 12
"""More than there are threads in any pool."""


class Hanging:
    """A call that hangs from `begin` to `end`; `inside` counts who is in it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._open = threading.Event()
        self._open.set()
        self.inside = 0

    def __call__(self, *arguments: Any) -> Any:
        self.inside += 1
        assert self._open.wait(20)
        return self._call(*arguments)

    def begin(self) -> None:
        self.inside = 0
        self._open.clear()

    def end(self) -> None:
        self._open.set()


@contextmanager
def hanging(owner: object, name: str) -> Iterator[Hanging]:
    """`owner.name` hangs from now on; it goes on at the end at the latest."""
    gate = Hanging(getattr(owner, name))
    setattr(owner, name, gate)
    gate.begin()
    try:
        yield gate
    finally:
        gate.end()


def committed(world: World) -> tuple[HandTierer, pb.PbLakeTieringTableInfo]:
    """A round whose commit is in the lake; its ack is still to come."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    return tierer, assignment


def test_repeats_of_a_blocked_ack_hold_up_no_heartbeat() -> None:
    async def test(served: Served) -> None:
        tierer, assignment = committed(served.world)
        message = tierer.ack_message(assignment)
        commits = served.world.coordinator.commits
        submitted = Hanging(commits.submit_ack)
        commits.submit_ack = submitted  # type: ignore[method-assign]
        with hanging(served.world.lake, "view") as lake:
            acks = [asyncio.ensure_future(served.tierers.CommitLakeSnapshot(message)) for _ in range(REPEATS)]  # type: ignore[arg-type]
            await until(lambda: submitted.inside == REPEATS and lake.inside == 1)
            answer = await served.heartbeat(tierer)
            assert not answer.tiering_table_resp[0].HasField("error")
            assert not any(ack.done() for ack in acks)
            lake.end()
            await asyncio.gather(*acks)
            assert lake.inside == 1  # all of them joined the first
        assert served.world.record().round.acked  # type: ignore[union-attr]

    over_grpc(test)


def test_acks_of_many_tables_that_hang_hold_up_no_other_table() -> None:
    tables = tuple(log_table(number, TablePath("many", f"t{number:02}")) for number in range(1, REPEATS + 2))
    world = World(tables, OPTIONS)

    async def test(served: Served) -> None:
        tierer = world.tierer()
        for table in tables:
            world.append(table=table)
        world.due()
        assignments = [tierer.get() for _ in tables]
        for assignment in assignments:
            tierer.commit(assignment)
        *bad, good = (tierer.ack_message(assignment) for assignment in assignments)
        view, hangs = world.lake.view, threading.Event()
        inside: list[TablePath] = []

        def hanging_view(path: TablePath) -> Any:
            if path != tables[-1].path:
                inside.append(path)
                assert hangs.wait(20)
            return view(path)

        world.lake.view = hanging_view  # type: ignore[method-assign]
        acks = [asyncio.ensure_future(served.tierers.CommitLakeSnapshot(message)) for message in bad]  # type: ignore[arg-type]
        try:
            await until(lambda: len(inside) == len(bad))
            await served.tierers.CommitLakeSnapshot(good)  # type: ignore[misc]
            assert not any(ack.done() for ack in acks)
        finally:
            hangs.set()
            await asyncio.gather(*acks)

    over_grpc(test, world)


def test_a_client_that_gives_its_ack_up_does_not_cancel_the_ack_of_another_call() -> None:
    async def test(served: Served) -> None:
        tierer, assignment = committed(served.world)
        message = tierer.ack_message(assignment)
        with hanging(served.world.lake, "view") as lake:
            given_up: Any = served.tierers.CommitLakeSnapshot(message)
            await until(lambda: lake.inside == 1)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            again = asyncio.ensure_future(served.tierers.CommitLakeSnapshot(message))  # type: ignore[arg-type]
            lake.end()
            await again
        assert served.world.record().round.acked  # type: ignore[union-attr]

    over_grpc(test)


def test_another_ack_of_a_blocked_table_is_told_to_try_again() -> None:
    async def test(served: Served) -> None:
        served.world.coordinator.commits.locks.wait_seconds = 0.01
        tierer, assignment = committed(served.world)
        late = tierer.ack_message(assignment)
        served.world.later(120)  # the round is over; the next one acks too
        served.world.later(10)
        other = served.world.tierer("two")
        newer = other.ack_message(other.get())
        with hanging(served.world.lake, "view") as lake:
            blocked = asyncio.ensure_future(served.tierers.CommitLakeSnapshot(late))  # type: ignore[arg-type]
            await until(lambda: lake.inside == 1)
            code, error = await error_of(served.tierers.CommitLakeSnapshot(newer))  # type: ignore[arg-type]
            assert (code, error.error_class, error.retryable) == (grpc.StatusCode.UNAVAILABLE, "TableBusy", True)
            lake.end()
            await blocked

    over_grpc(test)


def test_a_first_plan_that_waits_for_the_lake_holds_up_no_heartbeat() -> None:
    async def test(served: Served) -> None:
        served.world.append()
        tierer, assignment = served.world.assigned()
        plan = pb.RecordPlanRequest(round=tierer.ref(assignment), lake_table_uuid="lake-1", splits=1)
        with hanging(served.world.lake, "view") as lake:
            plans = [asyncio.ensure_future(served.tierers.RecordPlan(plan)) for _ in range(REPEATS)]  # type: ignore[arg-type]
            await until(lambda: lake.inside > 0)
            assert not (await served.heartbeat(tierer)).tiering_table_resp[0].HasField("error")
            lake.end()
            await asyncio.gather(*plans, return_exceptions=True)

    over_grpc(test)


def test_leases_of_a_cluster_that_hangs_hold_up_neither_heartbeats_nor_readers() -> None:
    async def test(served: Served) -> None:
        tierer, _ = served.world.assigned()
        with hanging(served.world.cluster, "drop_lease") as drops, hanging(served.world.cluster, "leases") as listing:
            request = pb.DropKvSnapshotLeaseRequest(lease_id="mine")
            waiting: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(served.tierers.DropKvSnapshotLease(request))  # type: ignore[arg-type]
                for _ in range(REPEATS)
            ]
            listings = [served.status.ListKvSnapshotLeases(status_pb2.ListKvSnapshotLeasesRequest()) for _ in range(REPEATS)]
            waiting += [asyncio.ensure_future(listing) for listing in listings]  # type: ignore[arg-type]
            await until(lambda: drops.inside > 0)
            assert not (await served.heartbeat(tierer)).tiering_table_resp[0].HasField("error")
            assert len((await served.page()).tiering_statuses) == 1
            drops.end()
            listing.end()
            await asyncio.gather(*waiting)

    over_grpc(test)


def test_a_cluster_that_hangs_while_a_name_is_looked_for_holds_up_no_other_reader() -> None:
    async def test(served: Served) -> None:
        unknown = common_pb2.PbTablePath(database_name="sales", table_name="made_a_moment_ago")
        with hanging(served.world.cluster, "tables") as listing:
            looks = [asyncio.ensure_future(served.page(table_path=unknown)) for _ in range(REPEATS)]
            await until(lambda: listing.inside == 1)
            assert len((await served.page()).tiering_statuses) == 1
            failed = await asyncio.gather(*looks, return_exceptions=True)
            assert {error.code() for error in failed} == {grpc.StatusCode.NOT_FOUND}  # type: ignore[union-attr]
            assert listing.inside == 1

    over_grpc(test)


def test_reconciliations_of_a_blocked_table_hold_up_no_other_call(world: World) -> None:
    """CALLs that wait for the lake, for a table's lock and for the store have threads of their own."""
    world.coordinator.commits.locks.wait_seconds = 0.01

    async def test() -> None:
        control, path = world.coordinator.control, world.table.path
        with hanging(world.lake, "view"), world.coordinator.commits.table_lock(1):
            busy = [
                asyncio.ensure_future(control.perform(ReconcileLake(path=path, action="accept", caller="alice"))) for _ in range(REPEATS)
            ]
            tiering = [asyncio.ensure_future(world.calling(wait=False)) for _ in range(REPEATS)]
            assert (await control.perform(PauseTiering(path=path, caller="alice"))).paused
            outcomes = await asyncio.gather(*busy, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {errors.TableBusy}
        await asyncio.gather(*tiering, return_exceptions=True)

    async def within() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(within())


def test_skips_that_wait_for_the_cluster_hold_up_no_other_call(world: World) -> None:
    """A bucket's rows may have a long log to replay before it is known where it stands."""
    control, path = world.coordinator.control, world.table.path

    def refuse(_: object) -> None:
        raise errors.ClusterUnavailable("the cluster was closed")

    keyed = replace(world.table, table_type=TableType.PRIMARY_KEY)  # of a log table the cluster skips nothing itself
    world.cluster.skip_record = refuse  # type: ignore[attr-defined]
    world.cluster.table = lambda _: keyed  # type: ignore[method-assign]

    async def test() -> None:
        with hanging(world.cluster, "skip_record") as skips:
            calls = [asyncio.ensure_future(control.perform(SkipRecord(path, 0, 1, caller="alice"))) for _ in range(REPEATS)]
            await until(lambda: skips.inside > 0)
            assert (await control.perform(PauseTiering(path=path, caller="alice"))).paused
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {errors.ClusterUnavailable}

    async def within() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(within())
