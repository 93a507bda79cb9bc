"""The small files of a dead-letter table are merged with its appends: each letter stays one row, whatever dies or comes in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from tiering import crash_points
from tiering.errors import LakeUnavailable
from tiering.lake.base import Committable, LakeView
from tiering.lake.dead_letters.table import dead_letter_path
from tiering.lake.rules.upkeep import small_files
from tiering.library_guards.panics import UnexpectedEnd
from tiering.round.steps import actions as act

ROUNDS = 3


class Killed(BaseException):
    """Passes every handler, as the end of the process does."""


@pytest.fixture(params=[ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LakeKind:
    refuse_poison(monkeypatch)
    monkeypatch.setattr(small_files, "SMALL_FILES", ROUNDS - 1)
    return request.param  # type: ignore[no-any-return]


def piled(folder: Path, kind: LakeKind, options: Mapping[str, str] | None = None) -> Poisoned:
    """A table with ROUNDS letters, each in a file of its own. Its next round puts another one aside, and merges these files."""
    poisoned = Poisoned(folder, kind, has_key=False, buckets=1, options={**PUT_ASIDE, **(options or {})})
    for number in range(ROUNDS):
        poisoned.write((number, f"row {number}"), (100 + number, POISON))
        tiered(poisoned)
    assert len(files(poisoned)) == ROUNDS
    poisoned.write((ROUNDS, f"row {ROUNDS}"), (100 + ROUNDS, POISON))
    return poisoned


@pytest.fixture
def poisoned(tmp_path: Path, kind: LakeKind) -> Iterator[Poisoned]:
    table = piled(tmp_path, kind)
    yield table
    table.world.close()


def files(poisoned: Poisoned) -> list[Path]:
    """The data files of the dead-letter table at its head."""
    return poisoned.world.by_hand.data_files(dead_letter_path(poisoned.table.path))


def each_once(poisoned: Poisoned, rounds: int) -> None:
    """Each bad record of so many rounds is one letter, and the good ones are rows."""
    assert [letter["offset"] for letter in letters(poisoned)] == [2 * number + 1 for number in range(rounds)]
    assert poisoned.in_lake() == {number: f"row {number}" for number in range(rounds)}
    assert [row.status for row in poisoned.world.coordinator.view().dead_letters()] == ["waiting"] * rounds


def test_an_append_merges_the_small_files_before_it(poisoned: Poisoned) -> None:
    tiered(poisoned)
    assert len(files(poisoned)) == 2
    each_once(poisoned, ROUNDS + 1)


@pytest.mark.parametrize("kind", [PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_nothing_is_merged_where_the_options_of_the_source_table_forbid_it(tmp_path: Path, kind: LakeKind) -> None:
    poisoned = piled(tmp_path, kind, {"table.datalake.auto-compaction": "false"})
    tiered(poisoned)
    assert len(files(poisoned)) == ROUNDS + 1
    poisoned.world.close()


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (ICEBERG_CLEAN, crash_points.AFTER_DEAD_LETTERS),
        (PAIMON_CLEAN, crash_points.AFTER_DEAD_LETTERS),
        (PAIMON_CLEAN, crash_points.BEFORE_COMPACTION),
    ],
    ids=lambda value: getattr(value, "name", value),
    indirect=["kind"],
)
def test_wherever_a_round_dies_that_merges_letters_each_is_one_row(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    poisoned.world.due()
    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reach", kill)
        with suppress(Killed, UnexpectedEnd):
            poisoned.world.begin(poisoned.table).end()
    poisoned.world.clock.advance(300)
    poisoned.world.restart()
    poisoned.write((ROUNDS + 1, f"row {ROUNDS + 1}"), (101 + ROUNDS, POISON))
    tiered(poisoned)
    each_once(poisoned, ROUNDS + 2)
    assert len(files(poisoned)) <= ROUNDS


def test_a_round_that_appends_while_another_one_merges_loses_no_letter(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned.world.due()
    asleep = poisoned.world.begin(poisoned.table).advance_to(act.PutRecordsAside)
    committer = type(poisoned.world.lake.tiering_factory(poisoned.table).create_committer())
    commit = committer.commit

    def overtaken(self: Any, committable: Committable, base: LakeView, *more: Any) -> int:
        """Before the first commit of a merge, the round's successor appends and merges, too."""
        if committable.rewrites:
            monkeypatch.setattr(committer, "commit", commit)
            poisoned.world.clock.advance(300)
            poisoned.world.restart()
            tiered(poisoned)
        return commit(self, committable, base, *more)

    monkeypatch.setattr(committer, "commit", overtaken)
    asleep.runner.run()
    assert committer.commit is commit, "the successor was there"
    each_once(poisoned, ROUNDS + 1)


def test_files_that_cannot_be_merged_delay_no_round(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise LakeUnavailable("the storage does not answer")

    monkeypatch.setattr(type(poisoned.world.lake), "merge_small_files", unavailable)
    tiered(poisoned)
    assert len(files(poisoned)) == ROUNDS + 1
    each_once(poisoned, ROUNDS + 1)


def test_files_are_merged_across_the_source_tables_of_one_name(poisoned: Poisoned, kind: LakeKind) -> None:
    tiered(poisoned)
    world = poisoned.world
    world.storage.drop_table(poisoned.table.path)
    world.by_hand.drop(poisoned.table.path)
    recreated = Poisoned(Path(), kind, has_key=False, buckets=1, options=PUT_ASIDE, world=world)
    for number in range(ROUNDS):
        recreated.write((number, f"row {number}"), (100 + number, POISON))
        tiered(recreated)
    assert len(files(recreated)) <= ROUNDS
    rows = [(row["table_id"], row["offset"]) for row in letters(recreated)]
    of_former = [(poisoned.table.table_id, 2 * number + 1) for number in range(ROUNDS + 1)]
    assert sorted(rows) == [*of_former, *((recreated.table.table_id, 2 * number + 1) for number in range(ROUNDS))]
    assert [row.offset for row in world.coordinator.view().dead_letters()] == [1, 3, 5]
