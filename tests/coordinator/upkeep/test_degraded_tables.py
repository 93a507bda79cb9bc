"""Tables that earlier versions left with very many small files are healed by upkeep rounds, in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.upkeep.degraded_tables import Degradation, degraded_table
from support.worlds.lake_world import LakeWorld
from tiering.lake.iceberg.upkeep import planning
from tiering.lake.maintenance import TableUpkeep
from tiering.lake.rules.upkeep import rewrite_runs
from tiering.model.rounds import RoundState
from tiering.model.upkeep import UpkeepOrder

RUN_FILES, ROUND_FILES = 40, 100


def test_small_files_are_rewritten_in_pieces_over_several_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = LakeWorld(tmp_path)
    monkeypatch.setattr(rewrite_runs, "RUN_FILES", RUN_FILES)
    monkeypatch.setattr(planning, "ROUND_FILES", ROUND_FILES)
    table = degraded_table(world, "orders", Degradation(snapshots=60, files=330))
    assert isinstance(world.lake, TableUpkeep)
    left, rounds = 330, 0
    while True:
        plan = world.lake.plan_upkeep(table, world.view(table), UpkeepOrder(), {})
        if not plan.tasks:
            break
        assert max(task.files for task in plan.tasks) <= RUN_FILES
        assert sum(task.files for task in plan.tasks) <= ROUND_FILES
        assert (plan.bytes_left > 0) == (left > ROUND_FILES), "what a round does not take is not forgotten"
        world.due()
        outcome = world.begin(table, upkeep=UpkeepOrder()).end()
        assert (outcome.state, outcome.error) == (RoundState.SUCCEEDED, None)
        left, rounds = world.view(table).files or 0, rounds + 1
    assert (left, rounds) == (1, 5)
    world.assert_exact(table)
    world.close()
