"""`lakeward tier`: what its bar is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.cluster_of_processes import Deployment
from support.commands import Lakeward
from support.coordinator_world import World
from support.terminals import Terminal
from tiering.cli.tier_commands import splits_of
from tiering.coordinator.call_rows import progress_line


def test_the_bar_reads_the_splits_from_the_line_that_the_coordinator_writes() -> None:
    world = World()
    world.append()
    tierer, given = world.assigned()
    tierer.plan(given)
    record = world.coordinator.book.get(given.table_id)
    assert record is not None
    assert record.round is not None
    running = replace(record.round, splits_done=2, splits_total=7)
    assert splits_of(progress_line(replace(record, round=running), running)) == (2, 7)


@pytest.mark.parametrize("line", ["", "round r1 of sales.orders waits for a tierer", "queued: r1 of sales.orders runs before it"])
def test_a_line_without_splits_shows_only_that_something_goes_on(line: str) -> None:
    assert splits_of(line) == (0, None)


def test_on_a_terminal_the_bar_is_gone_when_the_answer_comes(stocked: Deployment) -> None:
    with Terminal("tier", "web.clicks", "--uri", stocked.uri) as terminal:
        assert terminal.wait_ended() == 0
    assert "EMPTY" in terminal.text


def test_elsewhere_only_the_answer_is_written(lakeward: Lakeward) -> None:
    ended = lakeward("tier", "sales.orders", "--no-wait", "--format", "csv")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[1].startswith("sales.orders,")
