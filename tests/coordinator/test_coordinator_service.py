"""The coordinator's services over real gRPC on a loopback port; time is driven by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import grpc
import grpc.aio
import pytest

from support.coordinator_world import HandTierer, World
from support.memory_cluster import log_table
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server import RunningServer, serve
from tiering.errors import Fenced, InvalidArgument, LakewardError, SetupError, UnknownTable
from tiering.model import TablePath
from tiering.rpc.v1 import common_pb2, coordinator_pb2, status_pb2
from tiering.rpc.v1.control_pb2 import TierTableRequest, TierTableResponse
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.rpc_errors import from_rpc_error

OPTIONS = CoordinatorOptions(
    tick_interval_ms=5,
    discovery_interval_ms=3_600_000,
    lake_properties={"type": "sql", "warehouse": "file:///lake", "s3.secret-access-key": "hush", "uri": "postgresql://me:hush@db/lake"},
)


@dataclass
class Served:
    world: World
    server: RunningServer
    status: TieringStatusStub
    tierers: TieringCoordinatorStub
    control: TieringControlStub

    async def heartbeat(self, tierer: HandTierer, **fields: object) -> coordinator_pb2.LakeTieringHeartbeatResponse:
        response: coordinator_pb2.LakeTieringHeartbeatResponse
        response = await self.tierers.LakeTieringHeartbeat(tierer.message(**fields))  # type: ignore[arg-type, misc]
        return response

    async def page(self, **fields: object) -> status_pb2.ListTieringStatusesResponse:
        request = status_pb2.ListTieringStatusesRequest(**fields)  # type: ignore[arg-type]
        page: status_pb2.ListTieringStatusesResponse = await self.status.ListTieringStatuses(request)  # type: ignore[misc]
        return page

    def tier(self, **fields: object) -> grpc.aio.UnaryStreamCall[TierTableRequest, TierTableResponse]:
        path = common_pb2.PbTablePath(database_name="sales", table_name="orders")
        request = TierTableRequest(**({"table_path": path, "wait": True, "timeout_ms": 300_000, "caller": "alice"} | fields))  # type: ignore[arg-type]
        return self.control.TierTable(request)  # type: ignore[return-value]


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[Served]:
    server = await serve(world.coordinator, "127.0.0.1", 0)
    channel = grpc.aio.insecure_channel(server.address)
    try:
        yield Served(world, server, TieringStatusStub(channel), TieringCoordinatorStub(channel), TieringControlStub(channel))
    finally:
        await channel.close()
        await server.stop()


def over_grpc(test: Callable[[Served], Awaitable[None]], world: World | None = None) -> None:
    """Runs a test against a server of its own."""

    async def run() -> None:
        async with asyncio.timeout(30), serving(world or World(options=OPTIONS)) as served:
            await test(served)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def error_of(call: Awaitable[object]) -> tuple[grpc.StatusCode, LakewardError]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), from_rpc_error(caught.value, "test")


def many(count: int, freshness_ms: int = 180_000) -> World:
    tables = (log_table(number, TablePath("many", f"t{number:03}"), buckets=1) for number in range(1, count + 1))
    return World(tuple(replace(table, freshness_ms=freshness_ms) for table in tables), OPTIONS)


def test_the_service_config_holds_no_secret() -> None:
    async def test(served: Served) -> None:
        config = await served.tierers.GetServiceConfig(coordinator_pb2.GetServiceConfigRequest())  # type: ignore[misc]
        assert config.cluster_id == "cluster-1"
        assert (config.cluster_kind, config.lake_format, config.service_timeout_ms) == ("embedded", "iceberg", 120_000)
        assert dict(config.lake_properties) == {"type": "sql", "warehouse": "file:///lake"}

    over_grpc(test)


def test_a_held_request_is_answered_as_soon_as_a_table_is_due() -> None:
    async def test(served: Served) -> None:
        held = asyncio.ensure_future(served.heartbeat(served.world.tierer(), request=True, max_wait_ms=30_000))
        await until(lambda: served.world.coordinator.book.changes.waiting == 1)
        served.world.clock.advance(180)
        assert (await held).tiering_table.table_id == 1

    over_grpc(test)


def test_a_held_request_ends_without_a_table_after_its_wait() -> None:
    async def test(served: Served) -> None:
        held = asyncio.ensure_future(served.heartbeat(served.world.tierer(), request=True, max_wait_ms=20_000))
        await until(lambda: served.world.coordinator.book.changes.waiting == 1)
        served.world.clock.advance(19)
        await asyncio.wait([held], timeout=0.05)
        assert not held.done()
        served.world.clock.advance(1)
        assert not (await held).HasField("tiering_table")

    over_grpc(test)


def test_no_request_is_held_for_a_third_of_the_service_timeout() -> None:
    async def test(served: Served) -> None:
        held = asyncio.ensure_future(served.heartbeat(served.world.tierer(), request=True, max_wait_ms=3_600_000))
        await until(lambda: served.world.coordinator.book.changes.waiting == 1)
        served.world.clock.advance(3)
        assert not (await held).HasField("tiering_table")

    over_grpc(test, World(options=replace(OPTIONS, service_timeout_ms=9_000)))


def test_a_newer_heartbeat_ends_a_held_one_without_a_table() -> None:
    async def test(served: Served) -> None:
        tierer = served.world.tierer()
        held = asyncio.ensure_future(served.heartbeat(tierer, request=True, max_wait_ms=30_000))
        await until(lambda: served.world.coordinator.book.changes.waiting == 1)
        await served.heartbeat(tierer)
        assert not (await held).HasField("tiering_table")
        newest = asyncio.ensure_future(served.heartbeat(tierer, request=True, max_wait_ms=30_000))
        served.world.clock.advance(180)
        assert (await newest).HasField("tiering_table")

    over_grpc(test)


def test_a_request_with_a_report_is_answered_at_once() -> None:
    async def test(served: Served) -> None:
        served.world.clock.advance(180)
        tierer = served.world.tierer()
        given = (await served.heartbeat(tierer, request=True, max_wait_ms=30_000)).tiering_table
        told = tierer.about(given, empty=True)
        response = await served.heartbeat(tierer, request=True, max_wait_ms=30_000, finished=(told,))
        assert not response.finished_table_resp[0].HasField("error")

    over_grpc(test)


def test_two_held_tierers_get_a_table_each_and_never_the_same() -> None:
    async def test(served: Served) -> None:
        tierers = [served.world.tierer(name) for name in ("one", "two", "three")]
        held = [asyncio.ensure_future(served.heartbeat(each, request=True, max_wait_ms=30_000)) for each in tierers]
        await until(lambda: served.world.coordinator.book.changes.waiting == 3)
        served.world.clock.advance(5)
        await until(lambda: sum(each.done() for each in held) == 2)
        assert {each.result().tiering_table.table_id for each in held if each.done()} == {1, 2}
        served.world.clock.advance(40)
        await asyncio.gather(*held)

    over_grpc(test, many(2, freshness_ms=5_000))


def test_a_held_request_whose_client_went_away_takes_no_table() -> None:
    async def test(served: Served) -> None:
        call = served.tierers.LakeTieringHeartbeat(served.world.tierer("gone").message(request=True, max_wait_ms=30_000))
        await until(lambda: served.world.coordinator.book.changes.waiting == 1)
        call.cancel()
        await until(lambda: served.world.coordinator.book.changes.waiting == 0)
        served.world.clock.advance(180)
        await until(lambda: served.world.state() == "Pending")
        assert (await served.heartbeat(served.world.tierer("other"), request=True)).HasField("tiering_table")

    over_grpc(test)


def test_statuses_are_listed_and_filtered() -> None:
    async def test(served: Served) -> None:
        served.world.clock.advance(180)
        await until(lambda: served.world.state() == "Pending")
        [status] = (await served.page()).tiering_statuses
        assert (status.table_path.table_name, status.status, status.tiering_epoch) == ("orders", "Pending", 1)
        assert not status.HasField("last_tiered_time")
        assert not status.HasField("last_error")
        assert status.HasField("lag_ms")
        assert len((await served.page(statuses=["Pending", "Failed"])).tiering_statuses) == 1
        assert len((await served.page(statuses=["Failed"])).tiering_statuses) == 0
        assert len((await served.page(database_name="hr")).tiering_statuses) == 0
        path = common_pb2.PbTablePath(database_name="sales", table_name="orders")
        assert len((await served.page(table_path=path)).tiering_statuses) == 1

    over_grpc(test)


def test_an_unknown_path_is_not_found_and_a_bad_one_is_refused() -> None:
    async def test(served: Served) -> None:
        unknown = common_pb2.PbTablePath(database_name="sales", table_name="none")
        code, error = await error_of(served.page(table_path=unknown))
        assert (code, type(error)) == (grpc.StatusCode.NOT_FOUND, UnknownTable)
        bad = common_pb2.PbTablePath(database_name="sales", table_name="'; DROP")
        code, error = await error_of(served.page(table_path=bad))
        assert (code, error.error_class) == (grpc.StatusCode.INVALID_ARGUMENT, "InvalidName")
        code, error = await error_of(served.page(statuses=["Broken"]))
        assert (code, type(error)) == (grpc.StatusCode.INVALID_ARGUMENT, InvalidArgument)
        assert "Failed" in error.hint

    over_grpc(test)


def test_a_path_made_a_moment_ago_is_found() -> None:
    async def test(served: Served) -> None:
        made = replace(served.world.table, table_id=2, path=TablePath("sales", "brand_new"))
        served.world.cluster.by_path[made.path] = made
        served.world.cluster.logs[2] = {}
        path = common_pb2.PbTablePath(database_name="sales", table_name="brand_new")
        assert len((await served.page(table_path=path)).tiering_statuses) == 1

    over_grpc(test)


def test_all_pages_show_the_moment_of_the_first() -> None:
    async def test(served: Served) -> None:
        first = await served.page(page_size=2, statuses=["Scheduled"])
        served.world.clock.advance(180)
        await until(lambda: served.world.state(served.world.tables[4]) == "Pending")
        del served.world.cluster.by_path[served.world.tables[4].path]
        await asyncio.to_thread(served.world.coordinator.discovery.run)
        second = await served.page(page_size=2, page_token=first.next_page_token)
        third = await served.page(page_size=2, page_token=second.next_page_token)
        pages = [first, second, third]
        names = [status.table_path.table_name for page in pages for status in page.tiering_statuses]
        assert names == ["t001", "t002", "t003", "t004", "t005"]
        assert {status.status for page in pages for status in page.tiering_statuses} == {"Scheduled"}
        assert len({page.observed_time.ToMicroseconds() for page in pages}) == 1
        assert third.next_page_token == ""
        assert (await served.page(page_size=2, page_token=first.next_page_token)) == second

    over_grpc(test, many(5))


@pytest.mark.parametrize("token", ["nonsense", "a:b", ":5", "unknown:2"])
def test_an_unknown_page_token_says_what_to_do(token: str) -> None:
    async def test(served: Served) -> None:
        code, error = await error_of(served.page(page_token=token))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "first page" in error.hint

    over_grpc(test)


def test_a_page_has_a_thousand_statuses_at_most() -> None:
    async def test(served: Served) -> None:
        page = await served.page(page_size=5_000)
        assert len(page.tiering_statuses) == 1_000
        rest = await served.page(page_token=page.next_page_token)
        assert len(rest.tiering_statuses) == 100
        code, _ = await error_of(served.page(page_size=-1))
        assert code is grpc.StatusCode.INVALID_ARGUMENT

    over_grpc(test, many(1_100))


def test_waiting_calls_starve_neither_reads_nor_tierers() -> None:
    async def test(served: Served) -> None:
        served.world.append()
        tierer = served.world.tierer()
        await served.heartbeat(tierer)

        async def whole(call: grpc.aio.UnaryStreamCall[TierTableRequest, TierTableResponse]) -> list[TierTableResponse]:
            return [step async for step in call]

        calls = [asyncio.ensure_future(whole(served.tier())) for _ in range(60)]
        held = [
            asyncio.ensure_future(served.heartbeat(served.world.tierer(f"idle{number}"), request=True, max_wait_ms=30_000))
            for number in range(20)
        ]
        await until(lambda: served.world.coordinator.book.changes.waiting >= 79 and served.world.state() == "Tiering")
        async with asyncio.timeout(5):
            assert (await served.page()).tiering_statuses[0].status == "Tiering"
        winner = next(each for each in held if each.done())
        given = winner.result().tiering_table
        owner = served.world.tierer(served.world.record().round.tierer_id or "")  # type: ignore[union-attr]
        owner.sequence = 10
        owner.running[given.round_id] = given
        await asyncio.to_thread(owner.run, given)
        results = [steps[-1].result for steps in await asyncio.gather(*calls)]
        assert {result.state for result in results} == {"SUCCEEDED"}
        served.world.clock.advance(40)
        await asyncio.gather(*held)

    over_grpc(test)


def test_errors_of_a_call_travel_with_class_hint_and_ids() -> None:
    async def test(served: Served) -> None:
        served.world.coordinator.pause_tiering(served.world.table.path, "bob", "moving house")
        code, error = await error_of(served.tier().read())  # type: ignore[arg-type]
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert error.error_class == "TablePaused"
        assert "moving house" in error.message

    over_grpc(test)


def test_a_defect_is_told_by_class_and_logged() -> None:
    async def test(served: Served) -> None:
        def defect(*_: object) -> None:
            raise ZeroDivisionError("password=hush")

        served.world.coordinator.view = defect  # type: ignore[assignment, method-assign]
        code, error = await error_of(served.page())
        assert code is grpc.StatusCode.INTERNAL
        assert error.error_class == "ZeroDivisionError"
        assert "hush" not in error.message

    over_grpc(test)


def test_a_port_in_use_is_named() -> None:
    async def test(served: Served) -> None:
        other = World()
        with pytest.raises(SetupError, match=str(served.server.port)):
            await serve(other.coordinator, "127.0.0.1", served.server.port)
        other.coordinator.close()

    over_grpc(test)


def test_stopping_answers_held_requests_and_waiting_calls() -> None:
    async def test(served: Served) -> None:
        served.world.append()
        await served.heartbeat(served.world.tierer("stays"))
        served.world.coordinator.pause_tiering(served.world.table.path, "bob")
        held = asyncio.ensure_future(served.heartbeat(served.world.tierer(), request=True, max_wait_ms=30_000))
        await until(lambda: served.world.coordinator.book.changes.waiting == 1)
        async with asyncio.timeout(5):
            await served.server.stop()
        assert not (await held).HasField("tiering_table")
        await served.server.stop()
        await served.server.wait()

    over_grpc(test)


def test_a_server_whose_store_was_taken_over_says_so() -> None:
    async def test(served: Served) -> None:
        newer = served.world.another()
        served.world.clock.advance(180)
        with pytest.raises(Fenced):
            await served.server.wait()
        newer.close()

    over_grpc(test)


def test_other_services_share_the_port() -> None:
    async def run() -> None:
        world = World()
        registered: list[grpc.aio.Server] = []
        server = await serve(world.coordinator, "127.0.0.1", 0, [registered.append])
        assert len(registered) == 1
        await server.stop()

    asyncio.run(run())
