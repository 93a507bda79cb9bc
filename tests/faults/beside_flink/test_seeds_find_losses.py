"""A mend is taken out, and the random stories beside Flink find by themselves what is lost, doubled or stuck without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from faults.beside_flink.faults import KINDS, STEPS, StoryKind

from support.depth import soaked
from support.lakes.clean_memory_lake import CleanMemoryLake
from support.lakes.shared_memory_lake import SharedMemoryLake
from tiering.lake.base import LakeView
from tiering.lake.foreign import ForeignWalk
from tiering.lake.log_starts import RowOwner
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import Ranges, ReconcileInput
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey

RULES = "tiering.lake.rules."
EMPTIED = "tiering.coordinator.lake_repair.decision.emptied"
PARTITIONED = StoryKind(SharedMemoryLake, keyed=False, partitioned=True)
CLEAN_PARTITIONED = StoryKind(CleanMemoryLake, keyed=False, partitioned=True)
KEYS, CLEAN_KEYS = (StoryKind(lake, keyed=True, partitioned=True) for lake in (SharedMemoryLake, CleanMemoryLake))
WAL, CLEAN_WAL = (StoryKind(lake, keyed=True, before_images=False) for lake in (SharedMemoryLake, CleanMemoryLake))


def by_name(*_: object) -> RowOwner:
    """Rows are credited to whichever partition has the name now."""
    return RowOwner.THIS


def counts_dropped_partitions(view: LakeView, record: RecordedLakeSnapshot | None, walk: ForeignWalk) -> bool:
    return record is None or all(offset <= walk.ends.get(bucket, 0) for bucket, offset in record.offsets.items())


def nothing(*_: object) -> dict[Any, Any]:
    return {}


def never(*_: object) -> bool:
    return False


def empties_all(situation: ReconcileInput, held: RowOffsets, ranges: Ranges) -> frozenset[BucketKey]:
    """Rows of dropped partitions go with those of the living one."""
    return frozenset(bucket for bucket in situation.replaceable if bucket not in ranges and situation.places[bucket] in held.places)


def empties_none(*_: object) -> frozenset[BucketKey]:
    """Rows that stand where a bucket begins anew stay."""
    return frozenset()


@dataclass(frozen=True)
class Loss:
    """With `target` replaced, a story of `kind` and `seed` breaks a promise."""

    name: str
    kind: StoryKind
    seed: int
    target: str
    replacement: Callable[..., Any] | str


LOSSES = (
    Loss("rows credited by name", PARTITIONED, 0, RULES + "former_rows.Partitions.owner", by_name),
    Loss("repair by name", PARTITIONED, 3, "tiering.coordinator.lake_repair.reconciler.log_starts", nothing),
    Loss("a way back that loses rows", CLEAN_PARTITIONED, 25, RULES + "former_rows.Partitions.may_have_dropped_rows", never),
    Loss("a record of dropped partitions", PARTITIONED, 2, RULES + "shared_base._is_older", counts_dropped_partitions),
    Loss("former keys removed", KEYS, 3, EMPTIED, empties_all),
    Loss("former clean keys removed", CLEAN_KEYS, 354, EMPTIED, empties_all),
    Loss("keys of an unseen service kept", KEYS, 226, EMPTIED, empties_none),
    Loss("a bucket that begins anew", KEYS, 534, RULES + "foreign_walk.RunningEnds._begin_anew", nothing),
    Loss("keys left twice", WAL, 1, "tiering.cluster.shared_lake.WITHOUT_BEFORE_IMAGES", "NONE"),
    Loss(
        "clean keys left twice",
        CLEAN_WAL,
        0,
        "tiering.lake.proof.change_sums.LogFold._without_before_image",
        lambda self, kinds, keys: keys[:0],
    ),
)
IN_CI = [soaked(loss, of_ci=number % 2 == 0) for number, loss in enumerate(LOSSES)]


def tell_story(kind: StoryKind, seed: int) -> None:
    story = kind.story(seed)
    for _ in range(STEPS):
        story.step()
    story.heal()


@pytest.mark.parametrize("loss", IN_CI, ids=lambda loss: loss.name)
def test_a_seed_finds_what_goes_wrong_without_a_mend(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loss.kind in KINDS
    tell_story(loss.kind, loss.seed)
    monkeypatch.setattr(loss.target, loss.replacement)
    with pytest.raises(AssertionError):
        tell_story(loss.kind, loss.seed)
