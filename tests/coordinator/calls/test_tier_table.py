"""`CALL sys.tier_table` (DESIGN 5): goals, joins, queues, waits, keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.background import tick
from support.operators import pause
from support.worlds.calling import connect, during
from support.worlds.coordinator_world import World
from tiering import errors
from tiering.model.tables import TablePath


def test_nothing_to_do_is_an_empty_row_without_a_round(world: World) -> None:
    result = world.call()
    assert (result.state, result.round_id, result.records) == ("EMPTY", None, 0)
    assert world.state() == "Scheduled"
    assert world.store.rounds() == []


def test_it_queues_a_round_and_waits_until_the_lake_has_it(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        tierer = world.tierer()
        tierer.run(tierer.get())

    result = during(world, act)
    assert (result.state, result.records, result.files, result.splits) == ("SUCCEEDED", 10, 1, 2)
    assert result.lake_snapshot_id == world.record().lake.snapshot_id
    assert result.lag_ms_after == 0
    stored = world.store.round(result.round_id or "")
    assert stored is not None
    assert (stored.trigger, stored.triggered_by) == ("call", "alice")


def test_it_joins_a_running_round_whose_plan_reaches_its_goal(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)

    async def act() -> None:
        tierer.run(assignment)

    assert during(world, act).round_id == assignment.round_id
    assert world.record().call is None


def test_a_running_round_that_stops_short_is_followed_by_another(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    request = tierer.prepare(assignment)
    world.append()

    async def act() -> None:
        assert tierer.begin(assignment, request).granted
        world.lake.receive(request)
        tierer.ack(assignment)
        tierer.finish(assignment)
        tierer.run(tierer.get())

    result = during(world, act)
    assert result.round_id not in (None, assignment.round_id)
    assert result.tiering_epoch == 2
    assert result.state == "SUCCEEDED"


def test_a_round_that_had_not_looked_at_the_log_yet_may_serve_after_all(world: World) -> None:
    """The round's plan was unknown when the call came, so the next round was queued; but the lake decides."""
    world.append()
    tierer, assignment = world.assigned()

    async def act() -> None:
        tierer.run(assignment)

    result = during(world, act)
    assert (result.state, result.round_id, result.records) == ("SUCCEEDED", assignment.round_id, 10)


def test_the_queued_round_has_its_id_beforehand(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    result = world.call(wait=False)
    assert result.state == "Tiering"
    assert result.round_id != assignment.round_id
    tierer.run(assignment)
    assert tierer.get().round_id == result.round_id


def test_a_second_call_shares_the_queued_round(world: World) -> None:
    world.append()
    world.assigned()
    assert world.call(wait=False).round_id == world.call(caller="bob", wait=False).round_id


def test_without_waiting_it_answers_with_the_tables_state(world: World) -> None:
    world.append()
    result = world.call(wait=False)
    assert result.state == "Pending"
    assert result.round_id == world.record().round.round_id  # type: ignore[union-attr]
    assert result.records is None


def test_a_timeout_is_an_answer_and_the_round_goes_on(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)

    async def act() -> None:
        world.later(5)

    result = during(world, act, timeout_ms=5_000)
    assert (result.state, result.round_id) == ("Tiering", assignment.round_id)
    tierer.run(assignment)
    assert world.state() == "Scheduled"


def test_without_any_tierer_it_does_not_wait(world: World) -> None:
    world.append()

    async def act() -> None:
        world.later(world.options.tierer_grace_ms / 1_000)

    assert during(world, act).state == "Pending"


def test_a_call_that_waits_for_a_tierer_ends_with_the_round_of_the_one_that_comes(world: World) -> None:
    world.append()

    async def act() -> None:
        world.later(world.options.tierer_grace_ms / 1_000)
        world.later(world.options.tierer_grace_ms / 1_000)
        tierer = world.tierer()
        tierer.run(tierer.get())

    assert during(world, act, wait_for_tierer=True).state == "SUCCEEDED"


def test_a_failed_round_is_its_error_with_class_phase_and_hint(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        tierer = world.tierer()
        tierer.fail(tierer.get(), error_class="SchemaDrift", error_message="column a", error_hint="mend it", error_retryable=False)

    with pytest.raises(errors.SchemaDrift, match=r"sales\.orders failed in phase WRITE: column a") as caught:
        during(world, act)
    assert caught.value.hint == "mend it"
    assert caught.value.ids["phase"] == "WRITE"


def test_it_resumes_a_table_that_failed_for_good(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_retryable=False)
    world.later(9_999)
    assert world.state() == "Failed"

    async def act() -> None:
        tierer.run(tierer.get())

    assert during(world, act).state == "SUCCEEDED"
    assert world.record().error is None


def test_a_failed_table_with_nothing_to_do_gets_an_empty_round_that_clears_it(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_retryable=False)

    async def act() -> None:
        tierer.finish(tierer.get(), empty=True)

    assert during(world, act).state == "EMPTY"
    assert world.state() == "Scheduled"


def test_a_paused_table_is_an_error(world: World) -> None:
    pause(world.coordinator, world.table.path, "bob", "moving house")
    with pytest.raises(errors.TablePaused, match="paused by bob: moving house"):
        world.call()


def test_a_pause_ends_the_wait_for_a_queued_round(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        pause(world.coordinator, world.table.path, "bob")

    with pytest.raises(errors.TablePaused):
        during(world, act)


def test_a_dropped_table_ends_the_wait(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        del world.cluster.by_path[world.table.path]
        tick(world.coordinator)

    with pytest.raises(errors.UnknownTable):
        during(world, act)


def test_a_fenced_round_is_followed_until_the_lake_has_it(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        tierer = world.tierer()
        tierer.fail(tierer.get(), fenced=True)
        tierer.run(tierer.get())

    assert during(world, act).state == "SUCCEEDED"


def test_a_call_whose_round_is_fenced_like_the_one_before_fails_with_the_reason(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    fence = {"error_class": "Fenced", "error_message": "another round tiered first", "fenced": True}
    tierer.fail(first, **fence)
    connect(world)

    async def act() -> None:
        tierer.fail(tierer.get(), **fence)

    with pytest.raises(errors.Fenced, match=r"tiering sales\.orders failed.*2 rounds were fenced.*another round tiered first"):
        during(world, act)
    assert world.record().consecutive_failures == 1


def test_it_is_done_when_the_lake_has_it_though_the_tierer_died_before_its_last_report(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)

    async def act() -> None:
        tierer.commit(assignment)
        tierer.ack(assignment)
        world.later(world.options.stats_grace_ms / 1_000)

    result = during(world, act)
    assert (result.state, result.records) == ("SUCCEEDED", None)
    assert world.state() == "Tiering"


def test_a_recorded_offset_is_not_enough(world: World) -> None:
    """After a rollback of the lake the records would lie: the lake itself is asked."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    lake_table = world.lake.tables[world.table.path]
    lake_table.head = lake_table.tag = None
    result = world.call(wait=False)
    assert result.state == "Pending"


def test_a_table_made_a_moment_ago_is_found(world: World) -> None:
    new_table = replace(world.table, table_id=2, path=TablePath("sales", "brand_new"))
    world.cluster.by_path[new_table.path] = new_table
    world.cluster.logs[2] = dict(world.cluster.logs[1])
    assert world.call(new_table.path).state == "EMPTY"


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"lake_enabled": False}, errors.LakeDisabled), ({"path": TablePath("sales", "elsewhere")}, errors.UnknownTable)],
)
def test_a_table_that_cannot_be_tiered_is_named(world: World, change: dict[str, Any], kind: type[errors.LakewardError]) -> None:
    world.cluster.by_path = {(now := replace(world.table, **change)).path: now}
    with pytest.raises(kind, match=r"sales\.orders"):
        world.call()


def test_a_negative_timeout_is_refused(world: World) -> None:
    with pytest.raises(errors.InvalidArgument, match="timeout_ms"):
        world.call(timeout_ms=-1)
