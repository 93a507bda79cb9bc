"""Metadata of a Paimon table that was removed by hand: the round that has to read it says that it is to be restored.

First met by the stories (`python -m faults.stories`), seed 206 of paimon-system-columns: advice about rights and disks, for ever.
"""

from __future__ import annotations

from pathlib import Path

from support.lake_kinds.kinds import PAIMON
from support.lakes.broken_lakes import Source
from support.worlds.lake_world import LakeWorld
from tiering.model.rounds import RoundState


def test_a_removed_list_of_manifests_is_to_be_restored_and_then_all_goes_on(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path, kind=PAIMON)
    source = Source(world, has_primary_key=False, partitioned=False)
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    source.write()
    contents = {file: file.read_bytes() for file in (tmp_path / "lake").rglob("manifest/*-l1.avro")}
    for file in contents:
        file.unlink()
    error = source.tier().error
    assert error is not None
    assert error.error_class == "LakeUnavailable"
    assert "a file of the lake table was removed: restore it from a backup" in error.hint
    for file, content in contents.items():
        file.write_bytes(content)
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.in_lake() == sorted(source.rows.items())
    world.close()
