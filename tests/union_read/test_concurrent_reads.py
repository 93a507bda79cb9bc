"""Each statement has exactly the rows of its moment, with a writer, rounds, upkeep, expiry and retention at work all the time.

`make soak` runs 10,000 statements. `concurrent_reads` tells what happens in between.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.depth import SOAKS, soaked
from support.fresh import concurrent_reads
from support.fresh.concurrent_reads import KEY_SHAPES, LOG_SHAPES, ConcurrentReads, Figures, WrongRows
from support.lake_kinds.kinds import ICEBERG_CLEAN, LAKE_KINDS, LakeKind
from support.worlds.stories.upkeep import upkeep_often
from tiering.cli.sql import fresh_reads
from tiering.errors import LogBehindLake
from tiering.lake.marker import TieredRange
from tiering.model.reading.scans import ReadMoment
from tiering.model.tables import ChangeType
from tiering.union_read import plan
from tiering.union_read.primary_key import key_merge

pytestmark = pytest.mark.usefixtures("often")

STATEMENTS = 2_500 if SOAKS else 40
"""Statements of each lake kind: 10,000 in a soak."""
WEAKENED_STATEMENTS = 1_000
"""Statements in which a weakening must give wrong rows."""
SEED = int(os.environ.get("LAKEWARD_FUZZ_SEED", "20261129"))
SHAPES = (*LOG_SHAPES, *KEY_SHAPES)


@pytest.fixture
def often() -> Iterator[None]:
    """Rounds merge files and expire snapshots all the time."""
    with upkeep_often():
        yield


def read(folder: Path, kind: LakeKind, statements: int) -> Figures:
    world = ConcurrentReads(folder, kind, SEED, SHAPES)
    try:
        return world.run(statements)
    finally:
        world.close()


@pytest.mark.timeout(3_600)
@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", LAKE_KINDS, ids=lambda kind: kind.name)
def test_each_statement_has_exactly_the_rows_of_its_moment(tmp_path: Path, kind: LakeKind) -> None:
    figures = read(tmp_path, kind, STATEMENTS)

    print(f"{kind.name}: {figures.statements} statements, 0 wrong, {figures}")
    assert figures.statements >= STATEMENTS
    assert figures.log_records > 0
    assert min(figures.events[name] for name in ("_step", "_write", "_retention")) > 0


class With:
    """An object with other attributes."""

    def __init__(self, real: Any, **others: Any) -> None:
        self._real = real
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return self._others[name] if name in self._others else getattr(self._real, name)


def ends_are_read_before_the_lake(patch: pytest.MonkeyPatch) -> None:
    moment = plan._moment

    def weak(source: Any, table: Any, *more: Any) -> ReadMoment:
        ends = source.offsets(table)
        return moment(With(source, offsets=lambda _: ends), table, *more)

    patch.setattr(plan, "_moment", weak)


def the_cluster_s_record_tells_the_offsets(patch: pytest.MonkeyPatch) -> None:
    planned = plan._plan

    def weak(source: Any, table: Any, base: Any) -> Any:
        recorded = source.lake_snapshot(table)
        offsets = {} if recorded is None else recorded.offsets
        return planned(source, table, With(base, ranges={bucket: TieredRange(0, end) for bucket, end in offsets.items()}))

    patch.setattr(plan, "_plan", weak)


def tasks_read_up_to_the_present_ends(patch: pytest.MonkeyPatch) -> None:
    def weak(source: Any, open_lake: Any, moment: ReadMoment, *more: Any) -> Any:
        ends = source.offsets(source.table(moment.path))
        stops = {bucket: max(end, ends[bucket].log_end) for bucket, end in moment.stopping_offsets.items()}
        return plan.plan_scan(source, open_lake, replace(moment, stopping_offsets=stops), *more)

    patch.setattr(fresh_reads, "plan_scan", weak)


def tasks_read_the_present_lake_snapshot(patch: pytest.MonkeyPatch) -> None:
    def weak(source: Any, open_lake: Any, moment: ReadMoment, *more: Any) -> Any:
        view = open_lake("iceberg").view(moment.path)
        head = None if view is None else view.head
        return plan.plan_scan(source, open_lake, replace(moment, lake_snapshot_id=head), *more)

    patch.setattr(fresh_reads, "plan_scan", weak)


def deletes_leave_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_merge, "ChangeType", SimpleNamespace(DELETE=-99, UPDATE_BEFORE=ChangeType.UPDATE_BEFORE))


def lake_rows_of_changed_keys_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_merge, "rows_without", lambda changed, read, names, columns: read(columns))


def all_changes_of_a_key_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_merge, "last_of_each_key", lambda count, keys: np.ones(count, dtype=bool))


WEAKENINGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    tasks_read_up_to_the_present_ends,
    ends_are_read_before_the_lake,
    the_cluster_s_record_tells_the_offsets,
    tasks_read_the_present_lake_snapshot,
    deletes_leave_a_row,
    lake_rows_of_changed_keys_stay,
    all_changes_of_a_key_count,
)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("weaken", [soaked(weaken, of_ci=not number) for number, weaken in enumerate(WEAKENINGS)])
def test_a_weaker_read_has_wrong_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weaken: Callable[[pytest.MonkeyPatch], None]
) -> None:
    # A round that begins and commits between two calls of a read is what a weak order of these calls needs.
    monkeypatch.setattr(concurrent_reads, "EVENTS", (1, 30))
    weaken(monkeypatch)

    with pytest.raises((WrongRows, LogBehindLake)):
        read(tmp_path, ICEBERG_CLEAN, WEAKENED_STATEMENTS)
