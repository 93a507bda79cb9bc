from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from support.services.sys_catalog import error_of, serving
from support.values.own_procedure import procedure
from support.worlds.memory_coordinator import MemoryCoordinator, TierSteps, table_info, table_status
from sys_tables.declare.procedure import Call
from sys_tables.registry import Registry, default_registry
from tiering.errors import InvalidArgument, SchemaDrift, TablePaused, UnknownDatabase, UnknownProcedure, UnknownTable
from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import Progress
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.tier_table import TierTable, TierTableResult

Run = Callable[[Any], None]
FLIGHTS = TablePath("demo", "Flights")


def coordinator(tier: Callable[[TierTable], TierSteps] | None = None) -> MemoryCoordinator:
    return MemoryCoordinator([table_info("demo.Flights")], [table_status("demo.Flights")], tier=tier)


@dataclass(frozen=True)
class NoParameters:
    pass


@dataclass(frozen=True)
class CountParameters:
    rows: int = parameter("How many.")


@dataclass(frozen=True)
class NumberRow:
    number: int = column("A number.")


@procedure("count", CountParameters, NumberRow, comment="Counts.", mutates=False)
async def count(call: Call, parameters: Any) -> AsyncIterator[str | NumberRow]:
    for number in range(parameters.rows):
        yield NumberRow(number)
    yield "counted with password=hunter2"


def test_a_call_gives_progress_and_then_one_row(run: Run) -> None:
    async def tier(call: TierTable) -> TierSteps:
        yield Progress("planning")
        yield Progress("reading")
        yield TierTableResult(call.path, "r-1", "SUCCEEDED", 4, 77, 2, 100, 2, 4_096, 5_000, 0, 321)

    async def scenario() -> None:
        async with serving(coordinator(tier)) as client:
            progress, rows = await client.call("tier_table", table="demo.Flights")
        assert progress == ["planning", "reading"]
        assert rows.to_pylist() == [
            {
                "table": "demo.Flights",
                "round_id": "r-1",
                "state": "SUCCEEDED",
                "tiering_epoch": 4,
                "lake_snapshot_id": 77,
                "splits": 2,
                "records": 100,
                "files": 2,
                "bytes": 4_096,
                "lag_ms_before": 5_000,
                "lag_ms_after": 0,
                "duration_ms": 321,
            }
        ]

    run(scenario())


@pytest.mark.parametrize("text", ["demo.Flights", "demo.flights", "fluss.DEMO.FLIGHTS", "`demo`.`flights`", " demo.`Flights` "])
def test_a_table_is_found_however_it_is_written(run: Run, text: str) -> None:
    async def scenario() -> None:
        handle = coordinator()
        async with serving(handle) as client:
            await client.call("TIER_TABLE", table=text)
        assert handle.calls == [TierTable(FLIGHTS, caller="ann")]

    run(scenario())


def test_arguments_reach_the_coordinator_and_an_argument_key_wins(run: Run) -> None:
    async def scenario() -> None:
        handle = coordinator()
        async with serving(handle) as client:
            await client.call("tier_table", key="sent", caller="bob", table="demo.flights", wait=False, timeout_ms=5, dry_run=True)
            await client.call("tier_table", key="sent", table="demo.flights", wait=None, idempotency_key="given")
        assert handle.calls == [
            TierTable(FLIGHTS, caller="bob", wait=False, timeout_ms=5, dry_run=True, idempotency_key="sent"),
            TierTable(FLIGHTS, caller="ann", idempotency_key="given"),
        ]

    run(scenario())


def test_bad_calls_are_refused_before_the_coordinator_is_asked(run: Run) -> None:
    async def scenario() -> None:
        handle = coordinator()
        async with serving(handle) as client:
            for arguments, kind, progress in [
                ({}, InvalidArgument, "'table' of sys.tier_table is required"),
                ({"table": "demo.flights", "timeout_ms": -1}, InvalidArgument, "timeout_ms must not be negative, but is -1"),
                ({"table": "demo.flights", "wait": "no"}, InvalidArgument, "'wait' of sys.tier_table must be BOOLEAN"),
                ({"table": "demo.flights", "dry_run": 1}, InvalidArgument, "'dry_run' of sys.tier_table must be BOOLEAN"),
                ({"table": "demo.flights", "force": True}, InvalidArgument, "no argument 'force'"),
                ({"table": "demo.fligths"}, UnknownTable, "no table demo.fligths"),
                ({"table": "demos.flights"}, UnknownDatabase, "no database 'demos'"),
            ]:
                error = await error_of(client.call("tier_table", **arguments))
                assert type(error) is kind
                assert progress in error.message
            unknown = await error_of(client.call("tier_tabel"))
        assert isinstance(unknown, UnknownProcedure)
        procedures = len(default_registry().procedures)
        assert unknown.hint == f"Of {procedures} procedures, the nearest names are: tier_table, tier_database."
        assert handle.calls == []

    run(scenario())


def test_the_rounds_error_is_the_calls_error_also_after_progress(run: Run) -> None:
    async def drifted(call: TierTable) -> TierSteps:
        yield Progress("planning")
        raise SchemaDrift("column 'dest' is INT in the lake", hint="Drop it.", phase="PLAN", round_id="r-1")

    async def paused(call: TierTable) -> TierSteps:
        raise TablePaused("demo.Flights is paused by ann")
        yield

    async def scenario() -> None:
        async with serving(coordinator(drifted)) as client:
            error = await error_of(client.call("tier_table", table="demo.flights"))
        assert isinstance(error, SchemaDrift)
        assert (error.hint, error.ids) == ("Drop it.", {"phase": "PLAN", "round_id": "r-1"})
        async with serving(coordinator(paused)) as client:
            assert isinstance(await error_of(client.call("tier_table", table="demo.flights")), TablePaused)

    run(scenario())


def test_waiting_calls_are_kept_alive_and_starve_no_select(run: Run) -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def tier(call: TierTable) -> TierSteps:
            await go_on.wait()
            yield TierTableResult(call.path, None, "EMPTY", 1, None, None, None, None, None, None, None, 1)

        async with serving(coordinator(tier), keep_alive_s=0.1) as client:
            calls = [aiter(client.start("tier_table", table="demo.flights")) for _ in range(100)]
            for call in calls:
                assert (await anext(call)).progress.message == "sys.tier_table is still running"
            for _ in range(20):
                assert (await client.read("lake_tiering_status")).num_rows == 1
            go_on.set()
            for call in calls:
                last = [answer async for answer in call][-1]
                assert last.HasField("arrow")

    run(scenario())


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_client_that_goes_away_closes_the_call_at_once(run: Run, steps_before: int) -> None:
    async def scenario() -> None:
        waiting, closed = asyncio.Event(), asyncio.Event()

        async def tier(call: TierTable) -> TierSteps:
            try:
                for step in range(steps_before):
                    yield Progress(f"step {step}")
                waiting.set()
                await asyncio.Event().wait()
            finally:
                closed.set()

        async with serving(coordinator(tier)) as client:
            call = client.start("tier_table", table="demo.flights")
            for step in range(steps_before):
                assert (await call.read()).progress.message == f"step {step}"
            if not steps_before:
                reading = asyncio.create_task(call.read())
            await waiting.wait()
            call.cancel()
            await closed.wait()
            if not steps_before:
                await asyncio.wait([reading])

    run(scenario())


def test_a_result_may_have_any_number_of_rows(run: Run) -> None:
    async def scenario() -> None:
        async with serving(coordinator(), Registry(procedures=[count])) as client:
            progress, rows = await client.call("count", rows=2_500)
            assert rows.column("number").to_pylist() == list(range(2_500))
            assert progress == ["counted with password=***"]
            _, none = await client.call("count", rows=0)
            assert (none.num_rows, none.schema.names) == (0, ["number"])
            assert "dry_run" in (await error_of(client.call("count", rows=1, dry_run=True))).message

    run(scenario())


def test_a_lake_is_reconciled_and_a_table_retried_for_the_caller(run: Run) -> None:
    async def scenario() -> None:
        served = coordinator()
        async with serving(served) as client:
            progress, rows = await client.call("reconcile_lake", key="k", caller="bob", table="demo.flights", action="RETIER")
            _, retried = await client.call("retry_tiering", caller="bob", table="demo.flights", dry_run=True)
            wrong = await error_of(client.call("reconcile_lake", table="demo.flights", action="forget"))
        assert progress == [
            "reconciled: tiering of demo.Flights continues with bucket 0 at 5, bucket 1 at 6, every other bucket with its KV snapshot or "
            "at the start of its log"
        ]
        [row] = rows.to_pylist()
        assert row == {
            "table": "demo.Flights",
            "action": "retier",
            "round_id": "r9",
            "lake_snapshot_id": 77,
            "outcome": "reconciled",
            "records_left_out": 3,
            "records_removed": None,
        }
        assert retried.to_pylist() == [{"table": "demo.Flights", "status": "Pending", "next_retry_time": None}]
        path = TablePath("demo", "Flights")
        assert served.others == [
            ReconcileLake(path, "RETIER", caller="bob", idempotency_key="k"),
            RetryTiering(path, caller="bob", dry_run=True),
        ]
        assert isinstance(wrong, InvalidArgument)
        assert "must be one of adopt, accept, retier" in wrong.message

    run(scenario())


def test_help_explains_one_procedure_or_all(run: Run) -> None:
    async def scenario() -> None:
        async with serving(coordinator()) as client:
            _, everything = await client.call("help")
            _, explained = await client.call("help", procedure="TIER_TABLE")
            unknown = await error_of(client.call("help", procedure="nothing"))
            part = await error_of(client.call("help", procedure="tier"))
        assert set(everything.column("procedure").to_pylist()) == {procedure.name for procedure in default_registry().procedures}
        assert explained.column("parameter").to_pylist() == [None, "table", "wait", "timeout_ms", "dry_run", "idempotency_key"]
        assert explained.column("default").to_pylist() == [None, None, "true", "300000", "false", "NULL"]
        assert isinstance(unknown, UnknownProcedure)
        assert part.hint == "Did you mean tier_database or tier_table?"

    run(scenario())
