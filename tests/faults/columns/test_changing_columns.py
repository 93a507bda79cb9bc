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
STORIES = 3
"""Stories of each kind of table in CI."""


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary-key"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", range(examples(STORIES)))
def test_the_lake_follows_any_story(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: LakeKind, has_key: bool, seed: int) -> None:
    monkeypatch.setattr(small_files, "SMALL_FILES", 1)  # so that rounds merge files of former columns
    EvolvingStory(seed, tmp_path, kind, has_key=has_key, drops=seed % 3 == 2).play()
