"""A process with coordinator and round is killed at each point in turn, over each kind of lake; the next one goes on from there.

Afterwards the lake has every row once, and DuckDB, which reads log and files itself, finds no difference.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, LakeKind
from support.lakes.broken_lakes import Source
from support.lakes.lake_proof import assert_chain
from support.worlds.data_folders import SECONDS_BETWEEN, opened_later
from support.worlds.validated import check, faults
from tiering import crash_points
from tiering.model.rounds import RoundState

ROUND = """
import sys
from pathlib import Path
from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS
from support.worlds.data_folders import FolderWorld
folder, kind, path, seconds = sys.argv[1:]
[kind] = [known for known in LAKE_KINDS if known.name == kind]
world = FolderWorld(Path(folder), kind)
[table] = [known for known in world.storage.tables() if str(known.path) == path]
world.clock.advance(int(seconds))
tick(world.coordinator)
world.due()
world.begin(table).end()
"""
"""The rounds of a tierer that is started again under its name, beside a coordinator that was."""
AROUND_THE_COMMIT = (crash_points.IN_SPLIT, crash_points.AFTER_FILES, crash_points.AFTER_FENCE, crash_points.AFTER_LAKE_COMMIT)
EVERYWHERE = (
    *crash_points.IN_ROUND,
    crash_points.ACK_STORED,
    f"{crash_points.STORE_BEFORE_COMMIT}@5",
    f"{crash_points.STORE_AFTER_COMMIT}@6",
)
CASES: list[tuple[LakeKind, bool, Sequence[str]]] = [
    *((kind, False, EVERYWHERE) for kind in LAKE_KINDS if kind != ICEBERG),
    *((kind, True, AROUND_THE_COMMIT) for kind in LAKE_KINDS),
]
"""Log tables in Iceberg: test_crashes, with processes of their own for each part."""


def die(folder: Path, kind: LakeKind, source: Source, times: int, point: str) -> None:
    arguments = [str(folder), kind.name, str(source.info.path), str(times * SECONDS_BETWEEN)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), crash_points.VARIABLE: point}
    ended = subprocess.run([sys.executable, "-c", ROUND, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, (point, ended.stdout, ended.stderr)


@pytest.mark.in_turn("kind", "keys", "points")
@pytest.mark.parametrize(("kind", "keys", "points"), CASES, ids=[f"{kind.name}-{'keys' if keys else 'log'}" for kind, keys, _ in CASES])
def test_wherever_a_process_dies_in_its_round_the_next_one_goes_on(
    tmp_path: Path, kind: LakeKind, keys: bool, points: Sequence[str]
) -> None:
    with opened_later(tmp_path, kind, 0) as world:
        source = Source(world, keys, False)
    for times, point in enumerate(points, 1):
        with opened_later(tmp_path, kind, times) as source.world:
            source.write()
        die(tmp_path, kind, source, times, point)
    with opened_later(tmp_path, kind, len(points) + 1) as source.world:
        source.write()
        source.tier()
        assert source.tier().state in (RoundState.SUCCEEDED, RoundState.EMPTY)
        assert source.missing() == 0
        assert source.in_lake() == sorted(source.rows.items())
        assert not faults(check(source.world, source.info))
        assert_chain(source.world.lake_properties, source.info.path, kind.format)
