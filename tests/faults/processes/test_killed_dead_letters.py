"""A process is killed while its round puts records aside, over each kind of lake: each record is one dead letter, and later one row."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.worlds.data_folders import SECONDS_BETWEEN, opened_later
from tiering import crash_points
from tiering.procedures.replay_dead_letters import ReplayDeadLetters

ROUND = """
import sys
from pathlib import Path
import pytest
from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS
from support.lake_kinds.poisoned import refuse_poison
from support.worlds.data_folders import FolderWorld
from tiering.lake.rules.upkeep import small_files
folder, name, seconds = sys.argv[1:]
[kind] = [kind for kind in LAKE_KINDS if kind.name == name]
refuse_poison(pytest.MonkeyPatch())
small_files.SMALL_FILES = 1
world = FolderWorld(Path(folder), kind)
[table] = world.storage.tables()
world.clock.advance(int(seconds))
tick(world.coordinator)
world.due()
world.begin(table).end()
"""
AROUND_BOTH_COMMITS = (crash_points.AFTER_DEAD_LETTERS, crash_points.AFTER_LAKE_COMMIT, crash_points.AFTER_DEAD_LETTERS)
"""The last of these rounds merges the files of the letters before it."""
WHILE_MERGING = {"paimon": (crash_points.BEFORE_COMPACTION,)}
"""Further points by lake format: Paimon has a commit of its own for merged files."""


def die(folder: Path, kind: LakeKind, times: int, point: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), crash_points.VARIABLE: point}
    program = [sys.executable, "-c", ROUND, str(folder), kind.name, str(times * SECONDS_BETWEEN)]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, (point, ended.stdout, ended.stderr)


@pytest.mark.in_turn("kind", "points")
@pytest.mark.parametrize(
    ("kind", "points"),
    [(kind, (*AROUND_BOTH_COMMITS, *WHILE_MERGING.get(kind.format, ()))) for kind in LAKE_KINDS],
    ids=[kind.name for kind in LAKE_KINDS],
)
def test_wherever_a_process_dies_while_it_puts_records_aside_each_is_put_aside_once(
    tmp_path: Path, kind: LakeKind, points: Sequence[str]
) -> None:
    with opened_later(tmp_path, kind, 0) as world:
        poisoned = Poisoned(tmp_path, kind, has_key=False, buckets=1, options=PUT_ASIDE, world=world)
    rows, bad = dict[int, str](), dict[int, str]()
    for times, point in enumerate(points, 1):
        rows[times], bad[100 + times] = f"row {times}", POISON
        with opened_later(tmp_path, kind, times) as poisoned.world:
            poisoned.write((times, rows[times]), (100 + times, POISON))
        die(tmp_path, kind, times, point)
    with opened_later(tmp_path, kind, len(points) + 1) as poisoned.world, pytest.MonkeyPatch.context() as patch:
        refuse_poison(patch)
        poisoned.world.tier(poisoned.table)
        poisoned.write((0, "row 0"))
        tiered(poisoned)
        assert poisoned.in_lake() == {0: "row 0", **rows}
        offsets = [2 * times + 1 for times in range(len(points))]
        assert [letter["offset"] for letter in letters(poisoned)] == offsets
        assert [(row.offset, row.status) for row in poisoned.world.coordinator.view().dead_letters()] == [
            (offset, "waiting") for offset in offsets
        ]
        patch.undo()
        asyncio.run(poisoned.world.coordinator.control.perform(ReplayDeadLetters(poisoned.table.path, caller="ann")))
        assert poisoned.in_lake() == {0: "row 0", **rows, **bad}
