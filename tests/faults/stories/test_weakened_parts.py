"""A part that handles a named fault is taken out, and the story in which the fault happens fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.stories.test_faults import meet_alone

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


WEAKENED: tuple[tuple[str, Weaken], ...] = (
    ("orphans-cleaned-up-in-round", believes_that_files_stay),
    ("catalog-unavailable-after-commit", takes_errors_for_refusals),
)


@pytest.mark.parametrize(("name", "weaken"), WEAKENED, ids=lambda value: getattr(value, "__name__", value))
def test_a_part_that_is_taken_out_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, weaken: Any) -> None:
    weaken(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError, OSError, LakewardError)):
        meet_alone(tmp_path, NUMBERS[name], times=5)
