"""Remote files in several `remote.data.dirs` of Fluss 1.0: each table and partition has its own directory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from support.scripted.world import ScriptedFlussWorld
from support.worlds.validated import check, faults
from tiering.model.tables import BucketKey

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string())])


def test_each_partition_is_read_from_the_directory_that_the_server_names(tmp_path: Path) -> None:
    world = ScriptedFlussWorld(tmp_path)
    days, info = world.create("days", SCHEMA, partition_keys=["day"], remote_data_dir=str(tmp_path / "first"))
    files = []
    for number, directory in enumerate((None, tmp_path / "second", tmp_path / "third")):
        partition = world.fluss.add_partition(days, f"2026-11-0{number + 1}", None if directory is None else str(directory))
        bucket = BucketKey(partition.partition_id, 0)
        ids = [10 * number, 10 * number + 1]
        world.fluss.append(days, pa.RecordBatch.from_pydict({"id": ids, "day": [partition.name] * 2}, schema=SCHEMA), bucket)
        files.append(world.fluss.move_to_remote(days, bucket))
    assert [file.relative_to(tmp_path).parts[0] for file in files] == ["first", "second", "third"]
    assert world.fresh_ids(info) == [0, 1, 10, 11, 20, 21]
    assert world.tier(info).error is None
    assert world.lake_ids(info) == [0, 1, 10, 11, 20, 21]
    assert faults(check(world, info)) == []
    for round_number in range(3):
        rows = pa.RecordBatch.from_pydict({"id": [100 + round_number], "day": [partition.name]}, schema=SCHEMA)
        world.fluss.append(days, rows, bucket)
        assert world.tier(info).error is None
    offsets_files = list((tmp_path / "first" / "lake").rglob("*.offsets"))
    assert 0 < len(offsets_files) <= 4, "files of earlier commits are removed from the table's own directory"
    assert not (tmp_path / "fluss" / "remote" / "lake").exists()
    world.close()
