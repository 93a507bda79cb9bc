"""Reads that are refused or fail: what the caller is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from support.services.sys_catalog import error_of, pb, serving, where
from support.values.word_table import THREE, NarrowWordRow, WordRow, words
from support.worlds.memory_coordinator import MemoryCoordinator, table_info
from sys_tables.registry import default_registry
from tiering.errors import BadRequest, ClusterUnavailable, InvalidArgument, RoundFailed, StatementOutdated, UnknownTable
from tiering.rpc.v1 import common_pb2
from tiering.wire import error_status

Run = Callable[[Any], None]


def test_a_condition_nested_too_deep_is_refused(run: Run) -> None:
    async def scenario() -> None:
        condition = common_pb2.Condition(filter=where("status", "IS_NULL"))
        for _ in range(60):
            condition = common_pb2.Condition(negated=condition)
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            error = await error_of(client.table(pb.ReadTableRequest(namespace="sys", name="lake_tiering_status", conditions=[condition])))
        assert isinstance(error, InvalidArgument)
        assert "nested" in error.message

    run(scenario())


def test_what_a_read_cannot_have_is_named_with_what_there_is(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            table = await error_of(client.read("lake_status"))
            name = await error_of(client.read("procedures", "procedur"))
            condition = await error_of(client.read("procedures", filters=(where("procedure_name", "EQUAL", 5),)))
            operator = await error_of(client.read("procedures", filters=(common_pb2.Filter(column="procedure_name"),)))
        assert isinstance(table, UnknownTable)
        assert table.hint.startswith(f"Of {len(default_registry().tables)} system tables, the nearest names are: lake_tiering_status")
        assert isinstance(name, InvalidArgument)
        assert "procedure_name" in name.hint
        assert "'procedure_name' is STRING" in condition.message
        assert "OPERATOR_UNSPECIFIED" in operator.message

    run(scenario())


def test_the_rows_of_data_tables_are_not_read_here(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.a")])) as client:
            call = client.stub.ReadTable(pb.ReadTableRequest(namespace="d", name="a"))
            assert isinstance(await error_of(call.read()), UnknownTable)

    run(scenario())


def test_an_old_token_works_while_the_asked_columns_are_as_they_were(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(), words(WordRow, lambda: iter([WordRow("one", 3)]))) as client:
            token = await client.token()
            assert (await client.read("words", token=token)).num_rows == 1
        newer = words(NarrowWordRow, lambda: iter([NarrowWordRow("one", 3, 2)]))
        async with serving(MemoryCoordinator(), newer) as client:
            assert (await client.read("words", "word", token=token)).to_pylist() == [{"word": "one"}]
            for columns, filters in [(["length"], ()), (["word"], (where("length", "EQUAL", 3),)), ([], ()), (["word", "gone"], ())]:
                outdated = await error_of(client.read("words", *columns, filters=filters, token=token))
                assert isinstance(outdated, StatementOutdated)
                assert outdated.hint == "Run the statement again."
            assert (await client.read("words", "length", token=await client.token())).num_rows == 1
            assert isinstance(await error_of(client.read("words", "word", token="no token")), StatementOutdated)

    run(scenario())


def test_an_error_of_the_tree_arrives_as_itself_and_an_unexpected_one_redacted(run: Run) -> None:
    def unavailable() -> Iterator[Any]:
        raise ClusterUnavailable("the cluster does not answer", hint="Start it.", table_id=7)

    def broken() -> Iterator[Any]:
        yield WordRow("one", 3)
        raise KeyError("password=hunter2")

    async def scenario() -> None:
        async with serving(MemoryCoordinator(), words(WordRow, unavailable)) as client:
            error = await error_of(client.read("words"))
            assert isinstance(error, ClusterUnavailable)
            assert (error.message, error.hint, error.ids) == ("the cluster does not answer", "Start it.", {"table_id": "7"})
        with capture_logs() as logs:
            async with serving(MemoryCoordinator(), words(WordRow, broken)) as client:
                error = await error_of(client.read("words"))
        assert isinstance(error, RoundFailed)
        assert error.error_class == "KeyError"
        (log,) = logs
        assert (log["log_level"], log["error_class"], log["method"]) == ("error", "KeyError", "/sys_tables.rpc.v1.SysCatalog/ReadTable")
        assert "hunter2" not in error.message
        assert isinstance(log["exc_info"], KeyError)  # shown by tiering.cli.terminal.logs, which redacts it

    run(scenario())


def test_a_long_message_in_another_script_still_arrives(run: Run) -> None:
    def broken() -> Iterator[Any]:
        raise ClusterUnavailable("錯" * 5_000, hint="誤" * 5_000)

    async def scenario() -> None:
        async with serving(MemoryCoordinator(), words(WordRow, broken)) as client:
            with pytest.raises(grpc.RpcError) as raised:
                await client.read("words")
        error = error_status.error_from_rpc(raised.value, "")
        assert isinstance(error, ClusterUnavailable)
        assert error.message.startswith("錯" * 300)
        assert error.message.endswith("…")

    run(scenario())


STATUS = {"namespace": "sys", "name": "lake_tiering_status"}
LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"filters": [where("table_id", "IN", *range(10_001))]}, "more than 10000 values"),
        ({"filters": [where("table_id", "IN", *range(6_000))] * 2}, "more than 10000 values"),
        ({"filters": [where("status", "IS_NULL")] * 1_001}, "more than 1000 conditions"),
        (
            {
                "conditions": [
                    common_pb2.Condition(any=common_pb2.Conditions(conditions=[common_pb2.Condition(all=common_pb2.Conditions())] * 1_000))
                ]
            },
            "more than 1000 conditions",
        ),
        ({"columns": ["status"] * 1_001}, "1001 columns"),
        ({"order": [pb.Order(column="status")] * 100_000}, "100000 sort keys"),
        ({"group_by": ["status"] * 1_001}, "1001 groups"),
        ({"aggregates": [pb.Aggregate(function=pb.Aggregate.COUNT)] * 1_001}, "1001 aggregates"),
        ({"columns": [LONG]}, "100000 characters"),
        ({"filters": [common_pb2.Filter(column=LONG, operator=common_pb2.Filter.IS_NULL)]}, "100000 characters"),
        ({"order": [pb.Order(column=LONG)]}, "100000 characters"),
        ({"group_by": [LONG]}, "100000 characters"),
        ({"aggregates": [pb.Aggregate(function=pb.Aggregate.MAX, column=LONG)]}, "100000 characters"),
        ({"name": LONG}, "100000 characters"),
        ({"filters": [where("table_id", "EQUAL", LONG)]}, r"cannot be compared with 'x{100}'\.\.\."),
        ({"limit": -(2**63)}, "is not possible"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else None,
)
def test_more_than_a_statement_can_need_is_refused_at_once(run: Run, fields: dict[str, Any], complaint: str) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            error = await error_of(client.table(pb.ReadTableRequest(**(STATUS | fields))))
        assert isinstance(error, BadRequest)
        assert re.search(complaint, error.message)

    run(scenario())


def test_a_column_that_was_a_sort_key_decides_nothing_a_second_time(run: Run) -> None:
    async def scenario() -> None:
        order = [pb.Order(column="table_name", descending=True), *[pb.Order(column="table_name")] * 500]
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            read = await client.table(pb.ReadTableRequest(**STATUS, columns=["table_name"], order=order))
        assert read["table_name"].to_pylist() == ["b", "a", "a"]

    run(scenario())


@pytest.mark.parametrize("token", ["x" * 100_000, "W1tb" * 1_000, "!", "bnVsbA=="])
def test_a_page_token_of_another_user_is_refused(run: Run, token: str) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.a")])) as client:
            error = await error_of(client.stub.ListTables(pb.ListTablesRequest(namespace="d", page_token=token)))
        assert isinstance(error, InvalidArgument)
        assert "page token" in error.message

    run(scenario())


def test_a_plan_token_of_any_size_promises_nothing(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(statuses=THREE)) as client:
            error = await error_of(client.read("lake_tiering_status", "status", token="A" * 1_000_000))
        assert isinstance(error, StatementOutdated)

    run(scenario())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"table": "d.a", "reason": "x" * 4_097}, "4097 characters"),
        ({"table": LONG}, "100000 characters"),
        ({LONG: "d.a"}, "100000 characters"),
        ({f"a{number}": 1 for number in range(1_001)}, "1001 arguments"),
    ],
)
def test_a_call_with_more_than_it_can_need_is_refused(run: Run, arguments: dict[str, Any], complaint: str) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.a")])) as client:
            error = await error_of(client.call("pause_tiering", **arguments))
        assert isinstance(error, BadRequest)
        assert complaint in error.message

    run(scenario())
