"""The coordinator's services over real gRPC on a loopback port; time is driven by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import grpc
import grpc.aio
import pytest

from support.operators import pause
from support.services.served import Served, error_of, many, over_grpc
from support.worlds.calling import until
from support.worlds.coordinator_world import World
from tiering.coordinator.server.serving import serve
from tiering.errors import Fenced, InvalidArgument, SetupError, UnknownTable
from tiering.model.tables import TablePath
from tiering.procedures.tier_table import TierTable
from tiering.rpc.v1 import common_pb2, coordinator_pb2
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse
from tiering.wire.procedure_calls import result_from_pieces


def test_the_service_config_holds_no_secret() -> None:
    async def test(served: Served) -> None:
        config = await served.tierers.GetServiceConfig(coordinator_pb2.GetServiceConfigRequest())  # type: ignore[misc]
        assert config.cluster_id == "cluster-1"
        assert (config.cluster_kind, config.lake_format, config.service_timeout_ms) == ("embedded", "iceberg", 120_000)
        assert dict(config.lake_properties) == {"type": "sql", "warehouse": "file:///lake", "uri": "postgresql://db/lake"}

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
        for status in ("Broken", "Tiered"):  # no table is ever seen as Tiered
            code, error = await error_of(served.page(statuses=[status]))
            assert (code, type(error)) == (grpc.StatusCode.INVALID_ARGUMENT, InvalidArgument)
            assert error.hint == "The statuses are Scheduled, Pending, Tiering, Failed."

    over_grpc(test)


def test_a_path_made_a_moment_ago_is_found() -> None:
    async def test(served: Served) -> None:
        new_table = replace(served.world.table, table_id=2, path=TablePath("sales", "brand_new"))
        served.world.cluster.by_path[new_table.path] = new_table
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

        async def whole(call: grpc.aio.UnaryStreamCall[CallProcedureRequest, CallProcedureResponse]) -> list[CallProcedureResponse]:
            return [step async for step in call]

        calls = [asyncio.ensure_future(whole(served.tier())) for _ in range(60)]
        held = [
            asyncio.ensure_future(served.heartbeat(served.world.tierer(f"idle{number}"), request=True, max_wait_ms=30_000))
            for number in range(20)
        ]
        await until(lambda: served.world.coordinator.table_records.wake_ups.waiting >= 79 and served.world.state() == "Tiering")
        async with asyncio.timeout(60):
            assert (await served.page()).tiering_statuses[0].status == "Tiering"
        winner = next(request for request in held if request.done())
        assignment = winner.result().tiering_table
        owner = served.world.tierer(served.world.record().round.tierer_id or "")  # type: ignore[union-attr]
        owner.sequence = 10
        owner.running[assignment.round_id] = assignment
        await asyncio.to_thread(owner.run, assignment)
        request = TierTable(served.world.table.path)
        results = [result_from_pieces(request, [steps[-1].arrow], "test") for steps in await asyncio.gather(*calls)]
        assert {result.state for result in results} == {"SUCCEEDED"}
        served.world.clock.advance(40)
        await asyncio.gather(*held)

    over_grpc(test)


def test_errors_of_a_call_travel_with_class_hint_and_ids() -> None:
    async def test(served: Served) -> None:
        pause(served.world.coordinator, served.world.table.path, "bob", "moving house")
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
        pause(served.world.coordinator, served.world.table.path, "bob")
        [held] = await served.held(served.world.tierer())
        async with asyncio.timeout(60):
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
