"""A damaged file among those that a round may merge: the round lands without the merge, and no damage moves into a new file unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LakeKind
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.lake.rules.upkeep import small_files
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TableType


@pytest.fixture
def world(kind: LakeKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeWorld]:
    monkeypatch.setattr(small_files, "SMALL_FILES", 1)
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


def tier(world: LakeWorld, table: TableInfo, number: int) -> None:
    """A round of four rows with ids of its own."""
    ids = range(4 * number, 4 * number + 4)
    rows = pa.table({"id": ids, "text": [f"row {key}" for key in ids]}, schema=table.schema)
    writer = LogWriter(world.storage, table.path, f"round-{number}")
    (writer.append if table.table_type is TableType.LOG else writer.upsert)(rows)
    outcome = world.tier(table)
    assert outcome.state is RoundState.SUCCEEDED, outcome.error


def garble_texts(file: Path) -> None:
    """The values of one column cannot be read; keys and footer can."""
    group = pq.read_metadata(file).row_group(0)
    [column] = [group.column(index) for index in range(group.num_columns) if group.column(index).path_in_schema == "text"]
    start = column.data_page_offset if column.dictionary_page_offset is None else column.dictionary_page_offset
    content = bytearray(file.read_bytes())
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    file.write_bytes(content)


def change_text(file: Path) -> None:
    """One value is another one; the footer says what it said."""
    rows = pq.read_table(file, partitioning=None)
    place = rows.schema.get_field_index("text")
    texts = pa.array(["wrong", *rows["text"].to_pylist()[1:]])
    footer = {key: value for key, value in (pq.read_metadata(file).metadata or {}).items() if key.startswith(b"lakeward")}
    changed = rows.set_column(place, rows.schema.field("text"), texts).replace_schema_metadata(footer)
    size = file.stat().st_size
    pq.write_table(changed, file, compression="none")
    assert file.stat().st_size != size


DAMAGES = [(ICEBERG, garble_texts), (ICEBERG_CLEAN, garble_texts), (ICEBERG_CLEAN, change_text)]
"""Without footers nothing in the lake tells a value from another one; validation finds it in the log."""


@pytest.mark.parametrize(("kind", "damage"), DAMAGES, ids=lambda value: getattr(value, "__name__", None) or value.name)
@pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())
def test_a_round_lands_without_merging_a_damaged_file(world: LakeWorld, table_type: TableType, damage: Callable[[Path], None]) -> None:
    make = world.table if table_type is TableType.LOG else world.primary_key_table
    table = make("orders", 1)
    for number in range(2):
        tier(world, table, number)
    [damaged, other] = sorted(world.by_hand.data_files(table.path))
    content = damaged.read_bytes()
    damage(damaged)
    tier(world, table, 2)
    assert {damaged, other} <= set(world.by_hand.data_files(table.path))
    assert faults(check(world, table))
    damaged.write_bytes(content)
    tier(world, table, 3)
    assert not {damaged, other} & set(world.by_hand.data_files(table.path))
    assert not faults(check(world, table))
