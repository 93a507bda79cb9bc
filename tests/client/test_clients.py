"""The public client against a real service on a loopback port."""

from __future__ import annotations

import asyncio
import getpass
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import grpc
import pytest

import tiering.client
from support.clusters.memory_cluster import log_table
from support.operators import pause
from support.services.served import at_uri
from support.worlds.coordinator_world import World
from tiering import errors
from tiering.client import AsyncLakewardClient, LakewardClient
from tiering.client.procedure_methods import ProcedureMethods
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.rounds import RoundProgress
from tiering.model.tables import TablePath
from tiering.procedures.base import Progress
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.registry import declarations
from tiering.procedures.resume_tiering import ResumeTieringResult
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse, PbProgress
from tiering.rpc.v1.control_pb2_grpc import TieringControlServicer, add_TieringControlServicer_to_server
from tiering.rpc.v1.coordinator_pb2 import PbLakeTieringTableInfo, ReportProgressRequest
from tiering.wire.procedure_calls import NO_RESULT_HINT, ROUND_GOES_ON_HINT

OPTIONS = CoordinatorOptions(tick_interval_ms=5, discovery_interval_ms=3_600_000)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """Three tables, each with as many rows as the parameter says; without one they are empty."""
    tables = tuple(log_table(number, TablePath("sales", f"t{number}")) for number in (1, 2, 3))
    return World(tables, OPTIONS, rows=getattr(request, "param", 0))


with_rows = pytest.mark.parametrize("world", [1], indirect=True)


@pytest.fixture
def uri(world: World) -> Iterator[str]:
    with at_uri(world) as address:
        yield address


def test_statuses_come_whole_over_many_pages(world: World, uri: str) -> None:
    with LakewardClient(uri) as lakeward:
        statuses = lakeward.list_tiering_statuses(page_size=1)
        assert [status.table_name for status in statuses] == ["t1", "t2", "t3"]
        assert statuses == list(world.coordinator.view().table_statuses())
        assert len(lakeward.list_tiering_statuses("sales.t2")) == 1
        assert len(lakeward.list_tiering_statuses(TablePath("sales", "t2"))) == 1
        assert lakeward.list_tiering_statuses(database_name="hr") == []
        assert lakeward.list_tiering_statuses(statuses=["Failed"]) == []


@with_rows
def test_every_field_of_a_status_survives_the_way(world: World, uri: str) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_hint="mend it")
    pause(world.coordinator, world.table.path, "alice", "why", until=world.clock.now().replace(year=2030))
    second = tierer.get()
    tierer.plan(second)
    with LakewardClient(uri) as lakeward:
        statuses = lakeward.list_tiering_statuses()
    shown = world.coordinator.view().table_statuses()
    assert statuses == list(shown)
    assert shown[0].error_hint == "mend it"
    assert shown[0].paused_until is not None
    assert shown[1].fraction_completed == 0.0


def test_a_table_is_tiered_and_progress_is_told(world: World, uri: str) -> None:
    world.append()
    world.tierer("other").beat()
    tierer = world.tierer()
    heard: list[Progress] = []
    rounds: list[PbLakeTieringTableInfo] = []

    def follow(progress: Progress) -> None:
        heard.append(progress)
        if len(heard) == 1:
            assignment = tierer.get()
            tierer.plan(assignment)
            request = ReportProgressRequest(round=tierer.ref(assignment), splits_total=2, records_done=3, records_total=12)
            world.coordinator.progress.report(request)
            rounds.append(assignment)
        elif rounds and progress.round == RoundProgress(0, 2, 3, 12):
            tierer.run(rounds.pop())

    with LakewardClient(uri) as lakeward:
        result = lakeward.tier_table("sales.t1", on_progress=follow, caller="bob", idempotency_key="k")
        assert (result.state, result.records, result.path) == ("SUCCEEDED", 10, TablePath("sales", "t1"))
        assert (heard[0].round, "waits for a tierer" in heard[0].message) == (None, True)
        assert RoundProgress(0, 2, 3, 12) in [progress.round for progress in heard]
        assert lakeward.tier_table("sales.t1", caller="bob", idempotency_key="k") == result
        empty = lakeward.tier_table("sales.t1")
        assert (empty.state, empty.round_id) == ("EMPTY", None)


@with_rows
def test_rows_are_waited_for_and_the_reason_is_told(world: World, uri: str) -> None:
    world.append()
    world.due()
    heard: list[str] = []

    def follow(progress: Progress) -> None:
        heard.append(progress.message)
        tierer = world.tierer()
        while len(heard) == 1 and tierer.beat(request=True).HasField("tiering_table"):
            tierer.run(*tierer.running.values())

    with LakewardClient(uri) as lakeward:
        result = lakeward.wait_for_tiering("sales.t1", on_progress=follow, timeout_ms=60_000)
        assert (result.path, result.reached) == (TablePath("sales", "t1"), True)
        assert heard[0] == "sales.t1 is Pending: no tierer is connected"
        assert lakeward.wait_for_tiering("sales.t1", offsets={"0": 12}, timeout_ms=0).reached is False
        assert lakeward.wait_for_tiering("sales.t1", timestamp=world.clock.now() - timedelta(days=1), timeout_ms=0).reached
        assert not lakeward.wait_for_tiering("sales.t1", timestamp=world.clock.now() + timedelta(days=1), timeout_ms=0).reached
        assert [str(row.tiered.path) for row in lakeward.tier_database("sales", only_stale=False, exclude="_2")] == ["sales.t1", "sales.t3"]
        with pytest.raises(errors.UnknownDatabase):
            lakeward.tier_database("nowhere")
        with pytest.raises(errors.InvalidArgument, match=r"^timestamp has no time zone$"):
            lakeward.wait_for_tiering("sales.t1", timestamp=datetime(2026, 1, 1))
        with pytest.raises(errors.InvalidArgument, match="the offsets name no bucket"):
            lakeward.wait_for_tiering("sales.t1", offsets={})
        with pytest.raises(errors.InvalidArgument, match="does not let Lakeward set"):
            lakeward.set_freshness("sales.t1", "5 min")


def test_a_moment_of_any_zone_is_waited_for_and_shown_in_utc(world: World, uri: str) -> None:
    until = world.clock.now() + timedelta(days=1)
    heard: list[str] = []

    def follow(progress: Progress) -> None:
        heard.append(progress.message)
        world.clock.advance(2 * 86_400)

    with LakewardClient(uri) as lakeward:
        elsewhere = until.astimezone(timezone(timedelta(hours=5)))
        lakeward.wait_for_tiering("sales.t1", timestamp=elsewhere, on_progress=follow, timeout_ms=86_400_000)
    assert heard[0] == f"sales.t1: rows written until {until:%Y-%m-%d %H:%M:%S} UTC may still come"


def test_the_tables_of_a_database_are_counted_while_they_are_tiered(world: World, uri: str) -> None:
    heard: list[str] = []
    with LakewardClient(uri) as lakeward:
        rows = lakeward.tier_database("sales", only_stale=False, on_progress=lambda progress: heard.append(progress.message))
        assert [row.tiered.state for row in rows] == ["EMPTY"] * 3
        assert [message.partition(":")[0] for message in heard] == [f"{number} of 3 tables of sales" for number in (1, 2, 3)]
        with pytest.raises(errors.InvalidName, match=r"the database name 'd+'\.\.\. has 300 characters; at most 200 are allowed"):
            lakeward.tier_database("d" * 300)


def test_a_path_is_checked_before_it_is_a_text(uri: str) -> None:
    with LakewardClient(uri) as lakeward, pytest.raises(errors.InvalidName, match=r"'old\.sales' is not a valid database name"):
        lakeward.pause_tiering(TablePath("old.sales", "t1"))


def test_a_call_that_ends_without_a_result_says_what_to_do() -> None:
    class Silent(TieringControlServicer):
        def CallProcedure(self, request: CallProcedureRequest, context: grpc.ServicerContext) -> Iterator[CallProcedureResponse]:
            yield CallProcedureResponse(progress=PbProgress(message="begun"))

    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    add_TieringControlServicer_to_server(Silent(), server)  # type: ignore[no-untyped-call]
    server.start()
    hints = []
    try:
        with LakewardClient(f"127.0.0.1:{port}") as lakeward:
            for call in (lakeward.wait_for_tiering, lakeward.tier_database, lakeward.retry_tiering):
                with pytest.raises(errors.ServiceUnreachable, match="ended the call without a result") as ended:
                    call("sales.orders")
                hints.append(ended.value.hint)
    finally:
        server.stop(None).wait()
    assert hints == [ROUND_GOES_ON_HINT, ROUND_GOES_ON_HINT, NO_RESULT_HINT]


def test_a_caller_that_names_none_is_the_user_of_the_process(world: World, uri: str) -> None:
    with LakewardClient(uri) as lakeward:
        lakeward.pause_tiering("sales.t1")
        lakeward.pause_tiering("sales.t2", caller="alice")
    pauses = [record.pause for record in world.coordinator.table_records.live()]
    assert {pause.by for pause in pauses if pause is not None} == {getpass.getuser(), "alice"}


def test_errors_are_those_of_the_tree(world: World, uri: str) -> None:
    with LakewardClient(uri) as lakeward:
        with pytest.raises(errors.UnknownTable):
            lakeward.list_tiering_statuses("sales.none")
        with pytest.raises(errors.UnknownTable):
            lakeward.tier_table("sales.none")
        with pytest.raises(errors.InvalidName):
            lakeward.tier_table("../x")
        pause(world.coordinator, TablePath("sales", "t1"), "alice")
        with pytest.raises(errors.TablePaused, match="alice"):
            lakeward.tier_table("sales.t1")


def test_the_asyncio_client_does_the_same(world: World, uri: str) -> None:
    async def use() -> None:
        async with AsyncLakewardClient(uri) as lakeward:
            statuses = await lakeward.list_tiering_statuses(page_size=2)
            assert [status.table_name for status in statuses] == ["t1", "t2", "t3"]
            world.append()
            row = await lakeward.tier_table("sales.t1", wait=False)
            assert (row.state, row.round_id) == ("Pending", world.record().round.round_id)  # type: ignore[union-attr]
            rows = await lakeward.tier_database("sales", wait=False, include="t1")
            assert [(row.tiered.path, row.tiered.state, row.error) for row in rows] == [(TablePath("sales", "t1"), "Pending", None)]
            assert (await lakeward.wait_for_tiering("sales.t1", offsets={"0": 10}, timeout_ms=0)).reached is False
            assert (await lakeward.wait_for_tiering("sales.t2")).reached, "it has no rows"
            with pytest.raises(errors.InvalidArgument, match="does not let Lakeward set"):
                await lakeward.set_freshness("sales.t1", "5 min")
            with pytest.raises(errors.UnknownTable):
                await lakeward.list_tiering_statuses("sales.none")

    asyncio.run(use())


def test_the_error_names_the_uri_at_which_no_service_answers() -> None:
    with LakewardClient("127.0.0.1:1") as lakeward, pytest.raises(errors.ServiceUnreachable, match=r"127\.0\.0\.1:1"):
        lakeward.list_tiering_statuses()
    with pytest.raises(errors.InvalidArgument, match="no uri"):
        LakewardClient("no uri")


def test_an_older_service_that_lacks_a_call_says_so() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with LakewardClient(f"127.0.0.1:{port}") as lakeward, pytest.raises(errors.LakewardError, match="UNIMPLEMENTED"):
            lakeward.tier_table("sales.orders")
    finally:
        server.stop(None).wait()


def test_the_public_names() -> None:
    assert tiering.client.__all__ == ["AsyncLakewardClient", "ClientAccess", "LakewardClient"]


def test_the_clients_have_a_method_for_each_procedure_but_help() -> None:
    named_otherwise = declarations().keys() - {"help"} - vars(ProcedureMethods).keys()
    assert named_otherwise == {"tier_database", "sweep_lake"}
    assert named_otherwise <= vars(LakewardClient).keys() & vars(AsyncLakewardClient).keys()


def test_a_method_has_the_arguments_and_the_comment_of_its_declaration() -> None:
    arguments = inspect.signature(LakewardClient.pause_tiering).parameters
    assert list(arguments)[:3] == ["table_path", "reason", "until"]
    assert arguments.keys() >= {"dry_run", "idempotency_key", "caller", "on_progress"}
    assert LakewardClient.pause_tiering.__doc__ == PauseTiering.comment


def test_a_table_is_a_keyword_too(uri: str) -> None:
    with LakewardClient(uri) as lakeward:
        resume_tiering: Callable[..., ResumeTieringResult] = lakeward.resume_tiering
        assert str(resume_tiering(table_path="sales.t1").path) == "sales.t1"
