"""A round puts records aside with two commits. Whatever dies in between, each record is one dead letter or one row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.worlds.lake_world import SteppedRound
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.errors import CommitOutcomeUnknown
from tiering.lake.base import Committable
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.round.steps import actions as act

TABLE = default_registry().table("dead_letters")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def poisoned(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poisoned]:
    """A table whose next round puts two of its three records aside."""
    refuse_poison(monkeypatch)
    kind: LakeKind = request.param
    table = Poisoned(tmp_path, kind, has_key=False, buckets=1, options=PUT_ASIDE)
    table.write((1, "row 1"), (100, POISON), (101, POISON))
    yield table
    table.world.close()


def between_the_commits(poisoned: Poisoned) -> SteppedRound:
    """The table's next round, which has appended its dead letters and has not sent its commit."""
    poisoned.world.due()
    return poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)


def after_its_death(poisoned: Poisoned) -> None:
    """The tierer of the granted round is lost, and the coordinator starts again."""
    poisoned.world.clock.advance(300)
    poisoned.world.restart()


def shown(poisoned: Poisoned) -> list[tuple[int, str]]:
    return [(row.offset, row.status) for row in TABLE.rows(poisoned.world.coordinator.view(), ScanRequest())]  # type: ignore[union-attr]


def test_the_next_round_counts_the_records_and_appends_none_of_them_again(poisoned: Poisoned) -> None:
    between_the_commits(poisoned)
    assert len(letters(poisoned)) == 2
    assert shown(poisoned) == []
    after_its_death(poisoned)
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "row 1"}
    assert [letter["offset"] for letter in letters(poisoned)] == [1, 2]
    assert shown(poisoned) == [(1, "waiting"), (2, "waiting")]


def test_records_that_the_lake_can_hold_by_then_become_rows(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    between_the_commits(poisoned)
    after_its_death(poisoned)
    monkeypatch.undo()
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "row 1", 100: POISON, 101: POISON}
    assert shown(poisoned) == []
    assert not poisoned.world.record(poisoned.table).lake.skipped


def test_a_round_that_wakes_up_after_another_one_changes_nothing(poisoned: Poisoned) -> None:
    poisoned.world.due()
    asleep = poisoned.world.begin(poisoned.table).advance_to(act.PutRecordsAside)
    after_its_death(poisoned)
    tiered(poisoned)
    asleep.runner.run()
    poisoned.write((2, "row 2"), (102, POISON))
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "row 1", 2: "row 2"}
    assert [letter["offset"] for letter in letters(poisoned)] == [1, 2, 4]
    assert shown(poisoned) == [(1, "waiting"), (2, "waiting"), (4, "waiting")]


def test_a_store_that_was_lost_learns_the_dead_letters_from_the_marker(poisoned: Poisoned) -> None:
    tiered(poisoned)
    before = poisoned.world.record(poisoned.table).lake
    poisoned.world.coordinator.close()
    poisoned.world.store = type(poisoned.world.store)()
    poisoned.world.coordinator = poisoned.world._start()
    poisoned.write((2, "row 2"))
    tiered(poisoned)
    after = poisoned.world.record(poisoned.table).lake
    assert (after.skipped_records, after.dead_letters) == (before.skipped_records, before.dead_letters)
    assert shown(poisoned) == [(1, "waiting"), (2, "waiting")]


def test_a_request_whose_answer_is_lost_appends_once(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[str] = []
    poisoned.world.due()
    stepped = poisoned.world.begin(poisoned.table).advance_to(act.PutRecordsAside)
    committer = type(poisoned.world.lake.tiering_factory(poisoned.table).create_committer())
    commit = committer.commit

    def answer_is_lost(self: Any, committable: Committable, *more: Any) -> int:
        commit(self, committable, *more)
        commits.append(committable.round_id)
        if len(commits) == 1:
            raise CommitOutcomeUnknown("the answer was lost")
        return 0

    monkeypatch.setattr(committer, "commit", answer_is_lost)
    assert stepped.end().error is None
    assert [round_id.endswith("-dead-letters") for round_id in commits] == [True, False]
    assert [letter["offset"] for letter in letters(poisoned)] == [1, 2]


def test_records_of_a_rollback_are_read_again_and_counted_once(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned.write((2, "row 2"))
    tiered(poisoned)
    good = poisoned.world.view(poisoned.table).head
    poisoned.write((3, "row 3"), (102, POISON))
    tiered(poisoned)
    poisoned.world.by_hand.roll_back(poisoned.table.path, good)
    assert poisoned.world.tier(poisoned.table).error is not None
    retier = ReconcileLake(poisoned.table.path, "retier", caller="ann")
    assert asyncio.run(poisoned.world.coordinator.control.perform(retier)).outcome == "reconciled"
    assert poisoned.world.record(poisoned.table).lake.dead_letters == {"0": (1, 2)}
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "row 1", 2: "row 2", 3: "row 3"}
    assert [letter["offset"] for letter in letters(poisoned)] == [1, 2, 5]
    assert shown(poisoned) == [(1, "waiting"), (2, "waiting"), (5, "waiting")]
