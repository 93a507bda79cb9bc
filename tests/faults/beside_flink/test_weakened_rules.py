"""A part that handles a named fault beside Flink is taken out, and the test that holds the part fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults.beside_flink.faults import FAULTS
from faults.simulated.weakenings import same_base
from faults.stories.weakened import run_without

from support.depth import soaked
from tiering.lake.base import LakeView
from tiering.lake.foreign import AddedRows, ForeignWalk, SharedRecords
from tiering.lake.log_starts import RowOwner
from tiering.lake.marker import TieredRange
from tiering.lake.rules.foreign_walk import RunningEnds
from tiering.model.tables import BucketKey

SHARE_OF_CI = 3
"""CI takes out one part of so many, a soak all."""


@dataclass(frozen=True)
class Weakening:
    """`target` is patched with `replacement`; the test that holds `fault` fails then."""

    fault: str
    target: str
    replacement: Any

    def weaken(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self.target, self.replacement)


def takes_any_rows(self: RunningEnds, snapshot_id: int, bucket: BucketKey, added: AddedRows) -> None:
    """Where a snapshot begins does not matter."""
    self.ranges[bucket] = TieredRange(0, added.end)


def takes_any_changes(self: RunningEnds, bucket: BucketKey, added: AddedRows, stated: int | None) -> None:
    self.ranges[bucket] = TieredRange(0, max(added.end, self.ranges.get(bucket, TieredRange(0, 0)).tiered))


def tells_nothing(view: LakeView, records: SharedRecords, walk: ForeignWalk) -> ForeignWalk:
    return walk


def always(*_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def remembers_no_ends(marked: Mapping[BucketKey, TieredRange], remembered: object) -> dict[BucketKey, TieredRange]:
    return dict(marked)


def owned_by_name(*_: object) -> RowOwner:
    return RowOwner.THIS


RULES = "tiering.lake.rules."
WEAKENINGS = (
    Weakening("flink-doubled", RULES + "foreign_walk.RunningEnds._take_rows", takes_any_rows),
    Weakening("flink-appends-late", RULES + "foreign_walk.RunningEnds._take_changes", takes_any_changes),
    Weakening("flink-dies-untold", RULES + "shared_base._with_notification", tells_nothing),
    Weakening("flink-tells-twice", RULES + "shared_base._with_notification", tells_nothing),
    Weakening("flink-tells-late", RULES + "shared_base.is_exact", always),
    Weakening("flink-compacts", "tiering.lake.iceberg.reading.added_rows._is_rewrite", never),
    Weakening("flink-begins-with-kv-snapshot", RULES + "foreign_walk.RunningEnds._begin_anew", lambda *_: None),
    Weakening("flink-snapshot-expired", RULES + "shared_base.is_exact", always),
    Weakening("turn-lost", "tiering.round.steps.steps_to_commit.check_same_base", same_base),
    Weakening("record-request-lost", RULES + "shared_base._with_notification", tells_nothing),
    Weakening("record-answer-lost", RULES + "shared_base.is_exact", never),
    Weakening("lake-compacted", RULES + "foreign_walk.RunningEnds._take_rows", takes_any_rows),
    Weakening("lake-expired", RULES + "shared_base._remembered_ranges", remembers_no_ends),
    Weakening("partition-recreated", RULES + "former_rows.Partitions.owner", owned_by_name),
    Weakening("flink-leaves-keys-twice", "tiering.cluster.shared_lake.WITHOUT_BEFORE_IMAGES", "NONE"),
    Weakening("log-cut", "tiering.planning.plan_splits.check_gaps", lambda *_: None),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
IN_CI = [soaked(weakening, of_ci=number % SHARE_OF_CI == 0) for number, weakening in enumerate(WEAKENINGS)]


@pytest.mark.parametrize("weakening", IN_CI, ids=lambda weakening: weakening.fault)
def test_the_test_that_holds_a_part_fails_without_it(tmp_path: Path, weakening: Weakening) -> None:
    """With the part the test passes, in the run that this test belongs to."""
    test = BY_NAME[weakening.fault].held_by
    ended = run_without(weakening.weaken, test, tmp_path / "weakened")
    assert ended.tests
    assert ended.in_fixtures == []
    assert len(ended.errors) == len(ended.tests)


def test_every_other_fault_is_held_by_a_test_that_takes_the_rule_out_itself() -> None:
    others = [fault for fault in FAULTS if fault.name not in {weakening.fault for weakening in WEAKENINGS}]
    assert [fault.name for fault in others if "::test_each_rule_is_needed[" not in fault.held_by and "weakened" not in fault.held_by] == []
