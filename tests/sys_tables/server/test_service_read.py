"""Reads of system tables: columns, filters, order, aggregates and pieces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pytest

from support.services.sys_catalog import error_of, pb, registry_with, serving, where
from support.values.word_table import THREE, WordRow
from support.worlds.memory_coordinator import NOON, MemoryCoordinator, table_status
from sys_tables.declare.system_table import system_table
from sys_tables.query.arrow_stream import PIECE_BYTES, ROWS_AT_ONCE
from sys_tables.registry import Registry, default_registry
from tiering.access.requirements import EVERY_CALLER
from tiering.errors import InvalidArgument
from tiering.model.declare import column
from tiering.model.status import TableStatus
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.common_pb2 import Literal

Run = Callable[[Any], None]


def test_a_status_is_shown_value_by_value(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            first = (await client.read("lake_tiering_status")).to_pylist()[0]
        assert first == {field.name: getattr(THREE[0], field.name) for field in fields(TableStatus)}

    run(scenario())


def test_columns_come_in_the_order_asked_and_the_schema_says_the_moment(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            read = await client.read("lake_tiering_status", "status", "table_name", "consecutive_failures")
        assert read.schema.names == ["status", "table_name", "consecutive_failures"]
        assert read.schema.types == [pa.string(), pa.string(), pa.int32()]
        assert read.schema.metadata[b"observed_time"].decode() == NOON.isoformat()
        assert read.to_pylist()[0] == {"status": "Failed", "table_name": "a", "consecutive_failures": 2}

    run(scenario())


def test_columns_of_nothing_but_nulls_take_no_room_for_a_client_that_accepts_null_columns(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            request = {"namespace": "sys", "name": "lake_tiering_status"}
            plain = await client.table(pb.ReadTableRequest(**request))
            slim = await client.table(pb.ReadTableRequest(**request, null_columns=True))
            no_row = [where("status", "EQUAL", "Nothing")]
            none = await client.table(pb.ReadTableRequest(**request, filters=no_row, null_columns=True))
        empty = [name for name in plain.schema.names if plain.column(name).null_count == 3]
        assert "paused_until" in empty
        assert "last_error" not in empty
        assert [name for name in slim.schema.names if slim.schema.field(name).type == pa.null()] == empty
        assert slim.to_pylist() == plain.to_pylist()
        assert slim.schema.metadata == plain.schema.metadata
        assert none.schema.types == plain.schema.types

    run(scenario())


@dataclass(frozen=True)
class LateWordRow:
    word: str | None = column("NULL in all rows but the last.")


@system_table("late_words", LateWordRow, requires=EVERY_CALLER, comment="One batch of NULLs, and a word.")
def late_words(view: Any, scan: Any) -> Iterator[LateWordRow]:
    yield from (LateWordRow(None) for _ in range(ROWS_AT_ONCE))
    yield LateWordRow("last")


def test_rows_that_come_in_several_batches_keep_their_columns_types(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(), Registry([late_words], [])) as client:
            read = await client.table(pb.ReadTableRequest(namespace="sys", name="late_words", null_columns=True))
        assert read.schema.field("word").type == pa.string()
        assert read.column("word").to_pylist() == [None] * ROWS_AT_ONCE + ["last"]

    run(scenario())


@pytest.mark.parametrize(
    ("filters", "tables"),
    [
        ([where("status", "EQUAL", "Failed")], ["d.a"]),
        ([where("status", "NOT_EQUAL", "Failed")], ["d.b", "e.a"]),
        ([where("lag_ms", "GREATER_OR_EQUAL", 0)], ["d.a", "d.b"]),
        ([where("lag_ms", "NOT_EQUAL", 0)], ["d.a"]),
        ([where("lag_ms", "IS_NULL")], ["e.a"]),
        ([where("last_error", "IS_NOT_NULL")], ["d.a"]),
        ([where("table_name", "IN", "a", "z"), where("database_name", "EQUAL", "e")], ["e.a"]),
        ([where("status", "STARTS_WITH", "S")], ["e.a"]),
        ([where("fraction_completed", "LESS", 0.5)], ["d.a"]),
        ([where("paused", "EQUAL", False), where("lag_ms", "LESS", 1)], ["d.b"]),
        ([where("status", "EQUAL", None)], []),
        ([where("lag_ms", "IN", None, 0)], ["d.b"]),
        (
            [
                common_pb2.Filter(
                    column="round_started_time", operator=common_pb2.Filter.EQUAL, values=[Literal(timestamp_us=1_772_366_400_000_000)]
                )
            ],
            ["d.b"],
        ),
        ([where("database_name", "EQUAL", "d"), where("database_name", "EQUAL", "e")], []),
    ],
)
def test_filters_hold_for_every_row_returned_and_null_matches_no_comparison(
    run: Run, filters: list[common_pb2.Filter], tables: list[str]
) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            read = await client.read("lake_tiering_status", "database_name", "table_name", filters=tuple(filters))
        assert [f"{row['database_name']}.{row['table_name']}" for row in read.to_pylist()] == tables

    run(scenario())


def test_conditions_order_and_limit_are_the_service_s(run: Run) -> None:
    async def scenario() -> None:
        failed, in_d = where("status", "EQUAL", "Failed"), where("database_name", "EQUAL", "d")
        either = common_pb2.Condition(
            any=common_pb2.Conditions(
                conditions=[common_pb2.Condition(filter=failed), common_pb2.Condition(negated=common_pb2.Condition(filter=in_d))]
            )
        )
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            request = {"namespace": "sys", "name": "lake_tiering_status", "columns": ["database_name", "status"]}
            by_lag = [pb.Order(column="lag_ms", descending=True, nulls_first=True)]
            chosen = await client.table(pb.ReadTableRequest(**request, conditions=[either]))
            sorted_rows = await client.table(pb.ReadTableRequest(**request, order=by_lag, limit=2))
        assert chosen.to_pylist() == [{"database_name": "d", "status": "Failed"}, {"database_name": "e", "status": "Scheduled"}]
        assert sorted_rows.column("status").to_pylist() == ["Scheduled", "Failed"]

    run(scenario())


def test_aggregates_come_instead_of_rows(run: Run) -> None:
    async def scenario() -> None:
        longest = pb.Aggregate(function=pb.Aggregate.MAX, column="lag_ms")
        count = pb.Aggregate(function=pb.Aggregate.COUNT)
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            request = pb.ReadTableRequest(namespace="sys", name="lake_tiering_status", aggregates=[count, longest])
            whole = await client.table(request)
            request.group_by.append("database_name")
            grouped = await client.table(request)
            request.columns.append("status")
            refused = await error_of(client.table(request))
            request = pb.ReadTableRequest(namespace="sys", name="lake_tiering_status", aggregates=[pb.Aggregate()])
            unknown = await error_of(client.table(request))
        assert whole.to_pylist() == [{"count(*)": 3, "max(lag_ms)": 9_000}]
        assert sorted(grouped.to_pylist(), key=str) == [
            {"database_name": "d", "count(*)": 2, "max(lag_ms)": 9_000},
            {"database_name": "e", "count(*)": 1, "max(lag_ms)": None},
        ]
        assert isinstance(refused, InvalidArgument)
        assert isinstance(unknown, InvalidArgument)

    run(scenario())


def test_rows_of_several_batches_arrive_as_one_stream(run: Run) -> None:
    @system_table("many", WordRow, requires=EVERY_CALLER, comment="Many.")
    def many(view: Any, scan: Any) -> Iterator[WordRow]:
        yield from (WordRow(f"w{number:05}", number % 7) for number in range(12_000))

    async def scenario() -> None:
        async with serving(MemoryCoordinator(), registry_with(tables=[many])) as client:
            assert (await client.read("many", "word")).column("word").to_pylist() == [f"w{number:05}" for number in range(12_000)]
            some = await client.read("many", "length", filters=(where("length", "EQUAL", 3),), limit=1_000)
            longest = [pb.Order(column="length", descending=True), pb.Order(column="word")]
            first = await client.table(pb.ReadTableRequest(namespace="sys", name="many", columns=["word"], order=longest))
        assert some.column("length").to_pylist() == [3] * 1_000
        assert first.num_rows == 12_000
        assert first.column("word")[0].as_py() == "w00006"

    run(scenario())


def test_a_limit_cuts_and_zero_rows_still_have_a_schema(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            assert (await client.read("lake_tiering_status", limit=2)).num_rows == 2
            empty = await client.read("lake_tiering_status", "status", limit=0)
            none = await client.read("lake_tiering_status", filters=(where("status", "EQUAL", "failed"),))
            refused = await error_of(client.read("lake_tiering_status", limit=-1))
        assert (empty.num_rows, empty.schema.names) == (0, ["status"])
        assert none.num_rows == 0
        assert isinstance(refused, InvalidArgument)

    run(scenario())


def test_five_thousand_tables_come_in_pieces_of_a_mebibyte_at_most(run: Run) -> None:
    async def scenario() -> None:
        statuses = [table_status(f"d.t{n:04}", last_error="x" * 2_048, error_hint="é" * 500) for n in range(5_000)]
        async with serving(MemoryCoordinator(statuses=statuses)) as client:
            pieces = await client.pieces("lake_tiering_status")
        assert max(map(len, pieces)) <= PIECE_BYTES
        assert len(pieces) > 10
        assert pa.ipc.open_stream(pieces[0] + b"".join(pieces[1:])).read_all().column("table_name").to_pylist() == [
            s.table_name for s in statuses
        ]

    run(scenario())


def test_a_small_answer_is_one_piece(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            (piece,) = await client.pieces("lake_tiering_status")
        assert pa.ipc.open_stream(piece).read_all().num_rows == 3

    run(scenario())


def test_a_slow_table_does_not_starve_others_and_a_gone_client_frees_its_share(run: Run) -> None:
    release = threading.Event()
    closed = threading.Event()

    @system_table("slow", WordRow, requires=EVERY_CALLER, comment="Slow.")
    def slow(view: Any, scan: Any) -> Iterator[WordRow]:
        try:
            release.wait()
            yield WordRow("at last", 7)
        finally:
            closed.set()

    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE), registry_with(tables=[slow])) as client:
            waiting = [asyncio.create_task(client.read("slow")) for _ in range(64)]
            try:
                for _ in range(20):
                    assert (await client.read("lake_tiering_status")).num_rows == 3
                gone = waiting.pop()
                gone.cancel()
                await asyncio.wait([gone])
            finally:
                release.set()
            assert [read.num_rows for read in await asyncio.gather(*waiting)] == [1] * 63
            assert closed.is_set()

    run(scenario())


def test_procedures_are_those_that_are_served(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator()) as client:
            read = {row["procedure_name"]: row for row in (await client.read("procedures")).to_pylist()}
        assert list(read) == [procedure.name for procedure in default_registry().procedures]
        assert read["tier_table"]["privilege"] == "TIER on the table"
        assert [(p["name"], p["required"], p["default"]) for p in read["tier_table"]["parameters"]][:2] == [
            ("table", True, None),
            ("wait", False, "true"),
        ]
        assert read["help"]["output"].startswith("procedure STRING NOT NULL, parameter STRING")

    run(scenario())
