"""A process is killed at each point of the upkeep of a tiering round, and at each point of an upkeep round.

Afterwards the lake has every row once, DuckDB finds no difference between log, files and footers, and a sweep keeps what is alive.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN, LakeKind
from support.lakes.broken_lakes import Source
from support.lakes.lake_proof import assert_chain
from support.worlds.data_folders import FolderWorld
from support.worlds.validated import check, faults
from tiering import crash_points
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.lake import table_options
from tiering.lake.iceberg.schema.layout import PREVIOUS_VERSIONS
from tiering.lake.iceberg_options import PREFIX
from tiering.model.rounds import RoundState
from tiering.procedures.sweep_lake import SweepLake

ROUND = """
import sys
from pathlib import Path
from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS
from support.worlds.data_folders import FolderWorld
from tiering.lake.iceberg.commit import old_metadata
from tiering.lake import table_options
from tiering.lake.rules.upkeep import small_files
from tiering.model.upkeep import UpkeepOrder
small_files.SMALL_FILES, old_metadata.GUARD_MS, table_options.LEAST_MAX_AGE_MS = 1, 0, 0
folder, kind, path, seconds, is_upkeep = sys.argv[1:]
[kind] = [known for known in LAKE_KINDS if known.name == kind]
world = FolderWorld(Path(folder), kind)
[table] = [known for known in world.storage.tables() if str(known.path) == path]
world.clock.advance(int(seconds))
tick(world.coordinator)
world.due()
world.begin(table, upkeep=UpkeepOrder(full=True) if is_upkeep else None).end()
"""
"""A round that merges any two files, or rewrites all of them, beside a coordinator that was started again."""
SECONDS_BETWEEN = 1_000
"""Time after which no process waits for the dead one."""
OPTIONS = {"table.datalake.snapshot.max-age": "1 ms", "table.datalake.snapshot.min-count": "2", PREFIX + PREVIOUS_VERSIONS: "1"}
MERGED_AND_COMMITTED = (crash_points.MERGING, crash_points.MERGED, crash_points.AFTER_FENCE, crash_points.AFTER_LAKE_COMMIT)
IN_EXPIRY = (crash_points.SNAPSHOT_EXPIRING, f"{crash_points.SNAPSHOT_EXPIRING}@2")
CASES: list[tuple[LakeKind, Sequence[str]]] = [
    (ICEBERG_CLEAN, (*MERGED_AND_COMMITTED, crash_points.OLD_METADATA_DELETING)),
    (ICEBERG, (crash_points.MERGED, crash_points.AFTER_LAKE_COMMIT)),
    (PAIMON_CLEAN, (*MERGED_AND_COMMITTED, crash_points.BEFORE_COMPACTION, *IN_EXPIRY)),
    (PAIMON, (crash_points.MERGED, *IN_EXPIRY)),
]
OF_UPKEEP_ROUNDS: list[tuple[LakeKind, bool, Sequence[str]]] = [
    (ICEBERG_CLEAN, False, crash_points.IN_UPKEEP),
    (ICEBERG, True, crash_points.IN_UPKEEP),
]


@contextmanager
def opened(folder: Path, kind: LakeKind, times: int) -> Iterator[FolderWorld]:
    """The folder, so long after the ones before."""
    world = FolderWorld(folder, kind)
    world.lake_options = {**world.lake_options, **OPTIONS}
    try:
        world.clock.advance(times * SECONDS_BETWEEN)
        tick(world.coordinator)
        yield world
    finally:
        world.close()


def die(folder: Path, kind: LakeKind, source: Source, times: int, point: str, *, is_upkeep: bool = False) -> None:
    arguments = [str(folder), kind.name, str(source.info.path), str(times * SECONDS_BETWEEN), "upkeep" if is_upkeep else ""]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), crash_points.VARIABLE: point}
    ended = subprocess.run([sys.executable, "-c", ROUND, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, (point, ended.stdout, ended.stderr)


def tier_two_files(source: Source) -> None:
    """Tiers twice, so that the next round has files to merge and snapshots to expire."""
    for _ in range(2):
        source.write()
        assert source.tier().state is RoundState.SUCCEEDED


def last_operations(source: Source) -> list[str]:
    """Returns the operations of the snapshots, oldest first."""
    metadata = source.world.iceberg(source.info).metadata
    ordered = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    return [snapshot.summary.operation.value for snapshot in ordered if snapshot.summary is not None]


@pytest.mark.in_turn("kind", "points")
@pytest.mark.parametrize(("kind", "points"), CASES, ids=[kind.name for kind, _ in CASES])
def test_wherever_a_process_dies_in_upkeep_the_next_round_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: LakeKind, points: Sequence[str]
) -> None:
    monkeypatch.setattr(table_options, "LEAST_MAX_AGE_MS", 0)
    with opened(tmp_path, kind, 0) as world:
        source = Source(world, False, False)
        tier_two_files(source)
    for times, point in enumerate(points, 1):
        with opened(tmp_path, kind, times) as source.world:
            tier_two_files(source)
            source.write()
        die(tmp_path, kind, source, times, point)
        if point == crash_points.AFTER_LAKE_COMMIT and kind.format == "iceberg":
            with opened(tmp_path, kind, times) as source.world:
                assert last_operations(source)[-2:] == ["replace", "append"]
                assert len(last_operations(source)) <= 5
    assert_whole(tmp_path, kind, source, len(points) + 1)


@pytest.mark.in_turn("kind", "keys", "points")
@pytest.mark.parametrize(
    ("kind", "keys", "points"),
    OF_UPKEEP_ROUNDS,
    ids=[f"{kind.name}-{'keys' if keys else 'log'}" for kind, keys, _ in OF_UPKEEP_ROUNDS],
)
def test_wherever_a_process_dies_in_an_upkeep_round_the_next_round_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: LakeKind, keys: bool, points: Sequence[str]
) -> None:
    monkeypatch.setattr(table_options, "LEAST_MAX_AGE_MS", 0)
    with opened(tmp_path, kind, 0) as world:
        source = Source(world, keys, False)
    for times, point in enumerate(points, 1):
        with opened(tmp_path, kind, times) as source.world:
            tier_two_files(source)
            source.write()
        die(tmp_path, kind, source, times, point, is_upkeep=True)
    assert_whole(tmp_path, kind, source, len(points) + 1)


def assert_whole(folder: Path, kind: LakeKind, source: Source, times: int) -> None:
    """After further rounds and a sweep the lake has all rows, and their proofs."""
    with opened(folder, kind, times) as source.world:
        tier_two_files(source)
        assert source.missing() == 0
        [result] = sweep_lake(source.world.coordinator.call_parts, SweepLake(source.info.path, 0, caller="ann"))
        assert result.error is None
        assert source.in_lake() == sorted(source.rows.items())
        assert not faults(check(source.world, source.info))
        assert_chain(source.world.lake_properties, source.info.path, kind.format)
