"""`lakeward tier`, `tier-database`, `wait` and `fence`: what its bar is told and shows, and how its wait ends."""

from __future__ import annotations

import asyncio
import signal

import pytest

from support.running.commands import Lakeward
from support.running.processes import wait_for
from support.running.terminals import Terminal
from support.services.served import OPTIONS, at_uri
from support.worlds.coordinator_world import World
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.client import AsyncLakewardClient, LakewardClient
from tiering.rpc.v1.coordinator_pb2 import ReportProgressRequest


@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, ExitStatus.INTERRUPTED), (signal.SIGTERM, ExitStatus.TERMINATED)])
def test_a_person_watches_the_round_and_giving_up_ends_the_wait_alone(end: signal.Signals, status: ExitStatus) -> None:
    world = World(options=OPTIONS)
    world.append()
    tierer = world.tierer()
    tierer.beat()
    with at_uri(world) as uri, Terminal("tier", "sales.orders", "--uri", uri) as terminal:
        terminal.wait_for("waits for a tierer")
        assignment = tierer.get()
        tierer.plan(assignment)
        terminal.wait_for("runs on the tierer tierer-1, 0 of 2 splits done")
        done = ReportProgressRequest(round=tierer.ref(assignment), splits_done=1, splits_total=2, records_done=3, records_total=12)
        world.coordinator.progress.report(done)
        terminal.wait_for("25%")
        terminal.wait_for("1 of 2 splits done, 3 of 12 records")
        assert len(world.coordinator.open_calls.list()) == 1
        terminal.type("\x03") if end is signal.SIGINT else terminal.send(end)
        wait_for("the call is over", lambda: not world.coordinator.open_calls.list())
        assert terminal.wait_ended() == status
        assert terminal.bar_is_gone()
        assert "Traceback" not in terminal.text
        tierer.run(assignment)
    assert world.record().lake.offsets == {"0": 10, "1": 0}


def test_on_a_terminal_the_bar_is_gone_when_the_answer_comes() -> None:
    world = World(options=OPTIONS)
    world.append()
    tierer = world.tierer()
    tierer.beat()
    with at_uri(world) as uri, Terminal("tier", "sales.orders", "--uri", uri) as terminal:
        terminal.wait_for("waits for a tierer")
        tierer.run(tierer.get())
        assert terminal.wait_ended() == 0
        assert terminal.bar_is_gone()
    assert terminal.text.index("waits for a tierer") < terminal.text.index("SUCCEEDED")


def test_a_wait_that_ends_before_the_rows_are_in_the_lake_has_a_status_of_its_own(lakeward: Lakeward) -> None:
    ended = lakeward("tier", "sales.orders", "--timeout-ms", "500", "--format", "csv")

    assert ended.status == ExitStatus.NOT_YET
    assert ended.out.splitlines()[1].startswith("sales.orders,")
    assert ended.err.startswith(
        "lakeward: sales.orders is not tiered yet, its state is Pending: not done within 500 ms, and no tierer is connected: "
    )


def test_a_wait_that_is_too_short_says_so(lakeward: Lakeward) -> None:
    ended = lakeward("tier", "sales.orders", "--timeout-ms", "1", "--format", "json")

    assert ended.status == ExitStatus.NOT_YET
    assert "not done within 1 ms, and no tierer is connected: " in ended.err


def test_elsewhere_only_the_answer_is_written(lakeward: Lakeward) -> None:
    ended = lakeward("tier", "sales.orders", "--no-wait", "--format", "csv")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[1].startswith("sales.orders,")


def test_rows_are_waited_for_without_a_round(lakeward: Lakeward) -> None:
    waiting = lakeward("wait", "sales.orders", "--timeout-ms", "1", "--format", "csv")
    assert waiting.status == ExitStatus.NOT_YET
    assert waiting.out.splitlines()[1].startswith("sales.orders,false,,")
    assert waiting.err.startswith("lakeward: the lake does not have the rows yet")
    long_ago = lakeward("wait", "sales.orders", "--timestamp", "2020-01-01")
    assert (long_ago.status, long_ago.err) == (0, "")
    for words, message in {
        ("--offset", "0=many"): "0=many is not an offset",
        ("--offset", "seven=1"): "has no bucket 'seven'",
        ("--timestamp", "soon"): "'soon' is not a time",
        ("--timestamp", "2020-01-01", "--offset", "0=1"): "are two goals",
    }.items():
        refused = lakeward("wait", "sales.orders", *words)
        assert (refused.status, message in refused.err) == (2, True), refused.err


def test_a_database_is_tiered_and_what_is_left_is_counted(lakeward: Lakeward) -> None:
    ended = lakeward("tier-database", "sales", "--include", "order_", "--no-wait", "--format", "csv")
    assert (ended.status, ended.err) == (0, "")
    assert [line.split(",")[0] for line in ended.out.splitlines()] == ["table", "sales.orders"]
    short = lakeward("tier-database", "sales", "--include", "orders", "--timeout-ms", "1", "--format", "csv")
    assert (short.status, short.err) == (ExitStatus.NOT_YET, "lakeward: 1 of 1 table is not tiered yet\n")
    nothing = lakeward("tier-database", "sales", "--include", "none")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "lakeward: no table of sales has to be tiered\n")
    refused = lakeward("tier-database", "nowhere")
    assert refused.status != 0
    assert "nowhere" in refused.err


def test_a_round_that_there_is_not_cannot_be_cancelled(lakeward: Lakeward) -> None:
    refused = lakeward("cancel", "sales.orders")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("lakeward: there is no round 'sales.orders'")


def test_a_tierer_is_fenced_by_a_command_and_by_the_client() -> None:
    world = World(options=OPTIONS)
    world.append()
    world.assigned()
    with at_uri(world) as uri:
        with Terminal("fence", "tierer-1", "--reason", "hangs", "--dry-run", "--uri", uri) as terminal:
            assert terminal.wait_ended() == 0
        assert world.state() == "Tiering"
        with Terminal("fence", "tierer-1", "--reason", "hangs", "--uri", uri) as terminal:
            assert terminal.wait_ended() == 0
        assert world.state() == "Pending"
        with LakewardClient(uri) as client:
            assert client.fence_tierer("tierer-1", idempotency_key="k").tables_fenced == 0

        async def use() -> int:
            async with AsyncLakewardClient(uri) as client:
                return (await client.fence_tierer("tierer-1", caller="bob")).tables_fenced

        assert asyncio.run(use()) == 0
