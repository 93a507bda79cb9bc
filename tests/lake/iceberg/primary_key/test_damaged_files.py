"""Files of a primary-key table's lake copy that were removed or changed by hand: the round that has to read one names it.

First met by the stories (`python -m faults.stories`), seed 21 of iceberg-clean: an error of DuckDB, with advice about temporary files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LakeKind
from support.lakes.broken_lakes import Source
from support.on_call import call, next_action
from support.worlds.lake_world import LakeWorld
from tiering.model.rounds import RoundState

COLUMNS_OF_KEY = ("id", "region and id")


@pytest.fixture(params=[ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def garble(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(byte ^ 0xFF for byte in whole[4:400]) + whole[400:])


@pytest.mark.parametrize("key_of_two", [False, True], ids=COLUMNS_OF_KEY)
@pytest.mark.parametrize("damage", [remove, cut, garble])
def test_a_damaged_data_file_is_named_and_all_goes_on_once_it_is_restored(
    world: LakeWorld, damage: Callable[[Path], None], key_of_two: bool
) -> None:
    source = Source(world, has_primary_key=True, partitioned=key_of_two)
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    source.write()
    contents = {file: file.read_bytes() for file in world.by_hand.data_files(source.info.path)}
    for file in contents:
        damage(file)
    error = source.tier().error
    assert error is not None
    assert error.error_class == ("LakeUnavailable" if damage is remove else "DataCorrupt")
    assert any(file.name in error.message for file in contents)
    assert "estore it from a backup" in error.hint
    for file, content in contents.items():
        file.write_bytes(content)
    statement = next_action(world.coordinator, source.info)
    assert statement == (None if damage is remove else "CALL fluss.sys.retry_tiering('sales.orders')")
    if statement is not None:
        call(world.coordinator, statement)
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.in_lake() == sorted(source.rows.items())
