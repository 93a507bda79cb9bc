"""Reads that are refused or fail: what the caller is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from support.memory_coordinator import MemoryCoordinator, table_info
from support.sys_catalog import error_of, pb, serving, where
from support.word_table import THREE, NarrowWordRow, WordRow, words
from sys_tables.registry import default_registry
from tiering import rpc_errors
from tiering.errors import ClusterUnavailable, InvalidArgument, RoundFailed, StatementOutdated, UnknownTable

Run = Callable[[Any], None]


def test_a_condition_nested_too_deep_is_refused(run: Run) -> None:
    async def scenario() -> None:
        condition = pb.Condition(filter=where("status", "IS_NULL"))
        for _ in range(60):
            condition = pb.Condition(negated=condition)
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
            operator = await error_of(client.read("procedures", filters=(pb.Filter(column="procedure_name"),)))
        assert isinstance(table, UnknownTable)
        assert table.hint == f"The system tables are: {', '.join(sorted(table.name for table in default_registry().tables))}."
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
        assert (log["log_level"], log["error_class"], log["rpc"]) == ("error", "KeyError", "ReadTable")
        assert "hunter2" not in error.message
        assert isinstance(log["exc_info"], KeyError)  # shown by tiering.cli.logs, which redacts it

    run(scenario())


def test_a_long_message_in_another_script_still_arrives(run: Run) -> None:
    def broken() -> Iterator[Any]:
        raise ClusterUnavailable("錯" * 5_000, hint="誤" * 5_000)

    async def scenario() -> None:
        async with serving(MemoryCoordinator(), words(WordRow, broken)) as client:
            with pytest.raises(grpc.RpcError) as raised:
                await client.read("words")
        error = rpc_errors.from_rpc_error(raised.value, "")
        assert isinstance(error, ClusterUnavailable)
        assert error.message.startswith("錯" * 300)
        assert error.message.endswith("…")

    run(scenario())
