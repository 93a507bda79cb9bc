"""Idempotency keys, dry runs, and calls that are given up (DESIGN 5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from support.worlds.calling import connect, during, until
from support.worlds.coordinator_world import World
from support.worlds.memory_store import MemoryStore
from tiering import errors
from tiering.coordinator.memory.idempotency import stored_key
from tiering.coordinator.memory.store import Writes
from tiering.model.rounds import RoundState
from tiering.model.tables import TablePath
from tiering.procedures.tier_table import TierTableResult


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(world: World) -> None:
    assert world.call(dry_run=True).state == "EMPTY"
    world.append()
    before = world.record()
    assert world.call(dry_run=True, idempotency_key="k").state == "QUEUED"
    assert world.record() == before
    assert world.store.operation(stored_key("alice", "k")) is None
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    joined = world.call(dry_run=True)
    assert (joined.state, joined.round_id) == (RoundState.RUNNING, assignment.round_id)


def test_a_repeated_key_has_one_effect_and_one_answer(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        tierer = world.tierer()
        tierer.run(tierer.get())

    first = during(world, act, idempotency_key="k")
    world.append()
    world.restart()
    again = world.call(idempotency_key="k", timeout_ms=1)
    assert again == first
    assert world.state() == "Scheduled"


def test_a_repeated_key_attaches_to_the_first_goal(world: World) -> None:
    world.append()
    first = world.call(idempotency_key="k", wait=False)
    world.restart()
    connect(world)

    async def act() -> None:
        tierer = world.tierer()
        assignment = tierer.get()
        assert assignment.round_id == first.round_id
        tierer.run(assignment)

    result = during(world, act, idempotency_key="k")
    assert (result.state, result.round_id) == ("SUCCEEDED", first.round_id)
    assert len(world.store.rounds()) == 1


def test_a_repeated_key_gets_the_same_error(world: World) -> None:
    world.append()
    connect(world)

    async def act() -> None:
        tierer = world.tierer()
        tierer.fail(tierer.get(), error_class="SchemaDrift", error_retryable=False)

    with pytest.raises(errors.SchemaDrift) as first:
        during(world, act, idempotency_key="k")
    with pytest.raises(errors.SchemaDrift) as second:
        world.call(idempotency_key="k")
    assert second.value.message == first.value.message
    assert len(world.store.rounds()) == 1


def test_nothing_to_do_is_an_answer_that_a_key_keeps(world: World) -> None:
    assert world.call(idempotency_key="k").state == "EMPTY"
    world.append()
    assert world.call(idempotency_key="k").state == "EMPTY"


def test_a_key_used_for_something_else_is_refused(world: World) -> None:
    world.append()
    world.call(idempotency_key="k", wait=False)
    with pytest.raises(errors.InvalidArgument, match="'k' already names"):
        world.call(idempotency_key="k", path=TablePath("sales", "other"))


def test_the_key_of_another_caller_is_another_key(world: World) -> None:
    """Neither does it tell what the other calls, nor does it keep the other from using it."""
    world.append()
    world.call(idempotency_key="k", wait=False, caller="mallory")
    assert world.call(idempotency_key="k", wait=False).round_id is not None
    with pytest.raises(errors.UnknownTable):
        world.call(idempotency_key="k", caller="eve", path=TablePath("sales", "other"))
    assert world.store.operation(stored_key("alice", "k")) != world.store.operation(stored_key("mallory", "k"))


@pytest.mark.parametrize(("caller", "is_repeat"), [("alice", True), ("mallory", False)])
def test_a_key_that_an_older_version_stored_names_the_call_of_its_caller(world: World, caller: str, is_repeat: bool) -> None:
    assert world.call(idempotency_key="k").state == "EMPTY"
    operation = world.store.operation(stored_key("alice", "k"))
    assert operation is not None
    world.store = MemoryStore()
    world.crash()
    world.store.apply(world.coordinator.table_records.epoch, Writes(operations=(replace(operation, idempotency_key="k"),)))
    world.append()
    assert (world.call(idempotency_key="k", caller=caller, wait=False).state == "EMPTY") == is_repeat


def test_the_stored_name_of_a_key_is_no_key_of_it(world: World) -> None:
    world.append()
    world.call(idempotency_key="k", wait=False)
    key = stored_key("alice", "k")
    assert not asyncio.run(world.coordinator.control.knows(key, "alice"))


def test_a_dry_run_never_takes_up_what_a_key_left_open(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    world.call(idempotency_key="k", wait=False)
    tierer.fail(assignment)
    before = world.record()
    assert world.call(idempotency_key="k", dry_run=True).state == "QUEUED"
    assert world.record() == before


@pytest.mark.parametrize("key", ["", "k" * 257])
def test_a_key_that_cannot_be_is_refused(world: World, key: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="idempotency_key"):
        world.call(idempotency_key=key)


def test_a_key_is_forgotten_after_a_week(world: World) -> None:
    world.append()
    first = world.call(idempotency_key="k", wait=False)
    world.later(7 * 86_400 + 1)
    assert world.store.operation(stored_key("alice", "k")) is None
    assert world.call(idempotency_key="k", wait=False).round_id == first.round_id  # Pending still: it joins


def test_a_closed_iterator_ends_the_wait_and_not_the_round(world: World) -> None:
    world.append()
    connect(world)

    async def give_up() -> None:
        call = asyncio.create_task(world.calling())
        await until(lambda: bool(world.progress_lines))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: world.coordinator.table_records.wake_ups.waiting == 0)

    asyncio.run(give_up())
    assert world.state() == "Pending"


def test_many_waiting_calls_hold_no_thread(world: World) -> None:
    world.append()
    connect(world)

    async def crowd() -> list[TierTableResult]:
        calls = [asyncio.create_task(world.calling()) for _ in range(50)]
        await until(lambda: world.coordinator.table_records.wake_ups.waiting == 50)
        tierer = world.tierer()
        await asyncio.to_thread(lambda: tierer.run(tierer.get()))
        return await asyncio.wait_for(asyncio.gather(*calls), 60)

    results = asyncio.run(crowd())
    assert {result.state for result in results} == {"SUCCEEDED"}
    assert len(world.store.rounds()) == 1
