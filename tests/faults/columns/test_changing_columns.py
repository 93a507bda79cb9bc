"""A table's columns change at random, and after each round the lake has exactly the rows of a model in plain Python.

`LAKEWARD_FUZZ_EXAMPLES` is the number of stories for each kind of table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.depth import examples
from support.evolving.stories import EvolvingStory
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN, LakeKind
from tiering.lake.rules.upkeep import small_files

KINDS = (ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN)
TABLES = pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary-key"])
LAKES = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.fixture(autouse=True)
def rounds_merge_files_of_former_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "SMALL_FILES", 1)


@TABLES
@LAKES
@pytest.mark.parametrize("seed", range(examples(2)))
def test_the_lake_follows_any_story(tmp_path: Path, kind: LakeKind, has_key: bool, seed: int) -> None:
    EvolvingStory(seed, tmp_path, kind, has_key=has_key).play()


@TABLES
@LAKES
@pytest.mark.parametrize("seed", range(examples(1)))
def test_cluster_and_lake_follow_any_story(tmp_path: Path, kind: LakeKind, has_key: bool, seed: int) -> None:
    """With files of the cluster, partitions, KV snapshots, restarts, lost lake tables, upkeep, fresh reads and former snapshots."""
    EvolvingStory(seed, tmp_path, kind, has_key=has_key, is_stored=True).play()
