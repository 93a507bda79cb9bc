"""Every way in which a lake table is broken x every way out: whatever is tried first, the printed hints lead to a healthy table.

No circle, and no row lost unsaid: the lake equals the source table but for as many records as the CALLs said that they leave out.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.depth import soaked
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LAKE_KINDS, LakeKind
from support.lakes.broken_lakes import (
    FIRST_STATES,
    IN_ICEBERG_ALONE,
    STATES,
    Source,
    State,
    first_round_failed_behind_its_plan,
    source_made_anew,
    tiered,
)
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.lake.base import LakeView
from tiering.lake.layouts import Layout
from tiering.lake.rules.hints import is_empty
from tiering.lake.table_options import LAYOUT
from tiering.model.rounds import RoundState
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

STEPS = 3
"""A base check's hint, a refusal's, and the one that it names."""

_RENAME = r"Rename or drop the lake table [^.]*\.?\S* in the lake's catalog, then "
_STEP = re.compile(rf"(?P<rename>{_RENAME})?CALL sys\.reconcile_lake\('(?P<table>[^']+)', '(?P<action>\w+)'\)")

Step = tuple[bool, str]
"""Whether the lake table is renamed first, and the action."""


def hinted_steps(source: Source, hint: str) -> list[Step]:
    """Returns the statements of a hint."""
    steps = [(match["rename"] is not None, match["action"]) for match in _STEP.finditer(hint)]
    assert all(match["table"] == str(source.info.path) for match in _STEP.finditer(hint))
    return steps


def reconcile(source: Source, action: str, **more: bool) -> ReconcileLakeResult:
    call = ReconcileLake(source.info.path, action, caller="alice", **more)
    return asyncio.run(source.world.coordinator.control.perform(call))


def take(source: Source, step: Step) -> ReconcileLakeResult | errors.CannotReconcile:
    """First a dry run, which says the same and changes nothing."""
    rename, action = step
    if rename:
        source.world.by_hand.rename(source.info.path, f"former-{next(_numbers)}")
    before = view_of(source)
    shown = attempt(source, action, dry_run=True)
    assert view_of(source) == before
    done = attempt(source, action)
    if isinstance(done, ReconcileLakeResult):
        assert isinstance(shown, ReconcileLakeResult)
        assert (shown.offsets, shown.records_left_out) == (done.offsets, done.records_left_out)
    else:
        assert str(shown) == str(done)
        assert view_of(source) == before  # a refusal makes no table and commits nothing
    return done


def view_of(source: Source) -> LakeView | None:
    """The lake table as it is, whatever is wrong with it."""
    survey = source.world.lake.survey(source.info.path)
    return None if survey is None else survey.view


def attempt(source: Source, action: str, **more: bool) -> ReconcileLakeResult | errors.CannotReconcile:
    try:
        return reconcile(source, action, **more)
    except errors.CannotReconcile as refusal:
        return refusal


_numbers = itertools.count()


def follow(source: Source, step: Step) -> int | None:
    """Takes a step, and those that refusals name, to the end. Returns how many records that left out; None if it cannot tell."""
    for _ in range(STEPS):
        uncounted = cannot_be_counted(source) or names_partitions_alone(source)
        taken = take(source, step)
        if isinstance(taken, ReconcileLakeResult):
            assert taken.records_left_out is not None or (uncounted and taken.action != "retier")
            return taken.records_left_out
        others = hinted_steps(source, taken.hint)
        assert others, taken.hint
        assert step not in others, taken.hint
        step = others[0]
    raise AssertionError(f"the hints go in a circle: {step}")


def names_partitions_alone(source: Source) -> bool:
    """Whether rows name their partition by its values, which a former one may have had, and no marker of the head says whose they are."""
    survey = source.world.lake.survey(source.info.path)
    return bool(source.info.partition_keys) and survey is not None and survey.head_marker is None


def cannot_be_counted(source: Source) -> bool:
    """Returns whether rows have no offsets, as rows of another program."""
    return source.has_primary_key or LAYOUT.of(source.info.properties) is Layout.CLEAN


def broken(source: Source) -> errors.LakewardError | None:
    """Returns the error of the next round; None if the table is healthy."""
    error = source.tier().error
    assert error is None or not error.retryable
    return error


def prove_healthy(source: Source, left_out: int | None) -> None:
    """Rounds go through, and the lake has what it should."""
    assert source.world.record(source.info).state == "Pending"
    assert source.world.begin(source.info).end().state in (RoundState.SUCCEEDED, RoundState.EMPTY)
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    record = source.world.record(source.info)
    assert (record.state, record.error) == ("Scheduled", None)
    if not source.has_primary_key and left_out is not None:
        assert source.missing() == left_out
    elif left_out == 0:
        assert source.in_lake() == sorted(source.rows.items())
    else:
        source.missing()


def walk(folder: Path, break_it: Callable[[LakeWorld], Source], every_action: bool, kind: LakeKind = ICEBERG) -> None:
    """Runs each step from the same broken table: the steps that its error names first, then the others."""
    todo: list[Step] = []
    done: set[Step] = set()
    while not done or set(todo) - done:
        world = LakeWorld(folder / str(len(done)), kind=kind)
        try:
            source = break_it(world)
            error = broken(source)
            assert error is not None
            hinted = hinted_steps(source, error.hint)
            assert hinted, error.hint
            if is_empty(view_of(source)):
                assert (False, "accept") not in hinted
            todo = [*hinted, *((False, action) for action in ACTIONS)] if every_action else hinted[:1]
            step = next(step for step in todo if step not in done)
            done.add(step)
            try:
                prove_healthy(source, follow(source, step))
            except BaseException as failure:
                failure.add_note(f"the first step was {step}, the error {error.error_class}: {error.message} {error.hint}")
                raise
        finally:
            world.close()


ACTIONS = ("retier", "accept", "adopt")
KINDS = [(has_primary_key, partitioned) for partitioned in (False, True) for has_primary_key in (False, True)]


IN_ICEBERG = [soaked((state, kind), of_ci=number % 2 == (kind[0] != kind[1])) for number, state in enumerate(STATES) for kind in KINDS]
"""In CI each state meets one of the tables without partitions and one of those with them, and each table every other state."""


def kind_name(kind: object) -> str:
    has_primary_key, partitioned = kind  # type: ignore[misc]
    return f"{'primary-key' if has_primary_key else 'log'}{'-partitioned' if partitioned else ''}"


def kind_or_state_name(value: object) -> str:
    return kind_name(value) if isinstance(value, tuple) else getattr(value, "__name__", "")


@pytest.mark.parametrize(("state", "kind"), IN_ICEBERG, ids=kind_or_state_name)
def test_every_hint_leads_to_a_healthy_table(tmp_path: Path, state: State, kind: tuple[bool, bool]) -> None:
    def break_it(world: LakeWorld) -> Source:
        source = tiered(world, *kind)
        state(source)
        return source

    walk(tmp_path, break_it, every_action=not kind[1])


OTHER_LAKES = [kind for kind in LAKE_KINDS if kind != ICEBERG]
IN_OTHER_LAKES = [
    soaked(
        (lake_kind, keys, state),
        of_ci=keys == (number % 2 == 0) and (state in IN_ICEBERG_ALONE or number // 2 % len(OTHER_LAKES) == place),
    )
    for number, state in enumerate(STATES)
    for keys in (False, True)
    for place, lake_kind in enumerate(OTHER_LAKES)
    if lake_kind is ICEBERG_CLEAN or state not in IN_ICEBERG_ALONE
]
"""In CI each state meets one of them, in a table of the sort that IN_ICEBERG leaves out without partitions."""


def case_name(value: object) -> str:
    if isinstance(value, bool):
        return kind_name((value, False))
    return value.name if isinstance(value, LakeKind) else getattr(value, "__name__", "")


@pytest.mark.parametrize(("lake_kind", "keys", "state"), IN_OTHER_LAKES, ids=case_name)
def test_every_hint_leads_to_a_healthy_table_in_every_kind_of_lake(tmp_path: Path, lake_kind: LakeKind, keys: bool, state: State) -> None:
    def break_it(world: LakeWorld) -> Source:
        source = tiered(world, keys, False)
        state(source)
        return source

    walk(tmp_path, break_it, every_action=True, kind=lake_kind)


@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
@pytest.mark.parametrize("state", FIRST_STATES, ids=lambda state: state.__name__)
def test_a_first_round_that_failed_behind_its_plan_is_no_trap(tmp_path: Path, state: State, kind: tuple[bool, bool]) -> None:
    def break_it(world: LakeWorld) -> Source:
        source = first_round_failed_behind_its_plan(world, *kind)
        state(source)
        return source

    walk(tmp_path, break_it, every_action=not kind[1])


@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
def test_a_table_made_anew_with_other_partitions_after_a_dead_first_round_is_no_trap(tmp_path: Path, kind: tuple[bool, bool]) -> None:
    """The empty lake table of the former one stands in the way."""

    def break_it(world: LakeWorld) -> Source:
        source = first_round_failed_behind_its_plan(world, *kind)
        source.partitioned = not source.partitioned
        source_made_anew(source)
        return source

    walk(tmp_path, break_it, every_action=False)
