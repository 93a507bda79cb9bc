"""A part that handles a named fault is taken out, and the story in which the fault happens fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.simulated.weakenings import by_the_wall_clock, lets_panics_through, nothing
from faults.stories.test_faults import meet_alone

from support.worlds.stories.faulty_rounds import LibraryPanic
from support.worlds.story_faults import FAULTS
from tiering.errors import LakewardError
from tiering.lake.base import LakeView
from tiering.lake.iceberg.commit.committer import IcebergCommitter
from tiering.lake.paimon.commit.committer import PaimonCommitter
from tiering.lake.rules.base_check import Base, ResolvedCommit

NUMBERS = {fault.name: number for number, fault in enumerate(FAULTS)}
Weaken = Callable[[pytest.MonkeyPatch], None]


def believes_that_files_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IcebergCommitter, "_check_present", lambda *_: None)
    monkeypatch.setattr(PaimonCommitter, "_check_files", lambda *_: None)


def takes_errors_for_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an error were an outcome: nobody looks whether the request landed."""

    def resolve(view: LakeView | None, round_id: str, base: Base) -> ResolvedCommit:
        raise RuntimeError("an error means that nothing landed")

    monkeypatch.setattr("tiering.round.steps.steps_to_commit.resolve_commit", resolve)


def lets_errors_of_libraries_through(monkeypatch: pytest.MonkeyPatch) -> None:
    for lake_format in ("iceberg", "paimon"):
        for known in ("_OUTSIDE", "_DAMAGED"):
            monkeypatch.setattr(f"tiering.lake.{lake_format}.errors.{known}", ())


def lets_panics_end_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_again(error: BaseException) -> LakewardError:
        raise error

    monkeypatch.setattr("tiering.round.tasks.split_work.as_lakeward_error", raise_again)
    monkeypatch.setattr("tiering.round.runner.RoundRunner._carry_out", lets_panics_through)


def takes_any_history(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_history", "_check_not_ahead", "_check_untiered"):
        monkeypatch.setattr(f"tiering.lake.rules.base_check.{check}", nothing)


def takes_untagged_for_new(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("_check_not_ahead", "_check_untiered"):
        monkeypatch.setattr(f"tiering.lake.rules.base_check.{check}", nothing)


def does_not_compare_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for lake_format in ("iceberg", "paimon"):
        monkeypatch.setattr(f"tiering.lake.{lake_format}.lake.check_drift", lambda *_: ())


def keeps_dropped_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.coordinator.decisions.table_lifecycle.drop", nothing)


def waits_by_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.coordinator.decisions.moment.Timebase.now", by_the_wall_clock)


def takes_repeated_map_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.cluster.embedded.log.batches.check_map_keys", nothing)


WEAKENED: tuple[tuple[str, Weaken, int], ...] = (
    ("orphans-cleaned-up-in-round", believes_that_files_stay, 5),
    ("catalog-unavailable-after-commit", takes_errors_for_refusals, 5),
    ("lake-list-fails", lets_errors_of_libraries_through, 1),
    ("manifest-missing", lets_errors_of_libraries_through, 1),
    ("metadata-cut", lets_errors_of_libraries_through, 1),
    ("panic-in-task", lets_panics_end_a_round, 1),
    ("lake-rolled-back", takes_any_history, 1),
    ("tag-removed", takes_untagged_for_new, 1),
    ("lake-column-dropped", does_not_compare_columns, 1),
    ("lake-column-renamed", does_not_compare_columns, 1),
    ("table-made-anew-in-round", keeps_dropped_tables, 1),
    ("clock-back", waits_by_the_wall_clock, 1),
    ("map-keys-repeated", takes_repeated_map_keys, 1),
)
"""Fault, what is taken out, and how often the fault happens in the story."""


@pytest.mark.parametrize(("name", "weaken", "times"), WEAKENED, ids=lambda value: getattr(value, "__name__", value))
def test_a_part_that_is_taken_out_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, weaken: Any, times: int) -> None:
    weaken(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError, OSError, LakewardError, LibraryPanic)):
        meet_alone(tmp_path, NUMBERS[name], times)
