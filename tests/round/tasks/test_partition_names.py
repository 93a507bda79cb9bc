"""Partitions with values of any length over any number of columns: what the cluster takes is tiered, and a name keeps no other from it."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN
from support.worlds.lake_world import LakeWorld
from tiering.cluster import partition_names
from tiering.errors import InvalidData
from tiering.round.tasks import refused_records

MOST_FOLDER_BYTES = 255
LONGEST = 200
NUMBERS = itertools.count()
NAMES = st.integers(50, 110).map(lambda length: "p" * length)
VALUES = st.tuples(st.sampled_from(string.ascii_lowercase), st.integers(1, 8) | st.integers(120, LONGEST)).map(
    lambda drawn: drawn[0] * drawn[1]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, ...]]]:
    """Partition columns, and the values of rows in them."""
    columns = [f"{name}{number}" for number, name in enumerate(draw(st.lists(NAMES, min_size=1, max_size=3)))]
    return columns, draw(st.lists(st.tuples(*(VALUES for _ in columns)), min_size=2, max_size=4))


@pytest.fixture(params=[ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.name)
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


def check_rows(world: LakeWorld, drawn: tuple[list[str], list[tuple[str, ...]]], *, is_limited: bool) -> None:
    """Each row is refused when it is written, or two rounds bring it to the lake unless no file system takes its folders."""
    columns, rows = drawn
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, pa.string(), nullable=False) for name in columns)])
    table = world.table(f"t{next(NUMBERS)}", 1, tuple(columns), schema)
    accepted, fitting = [], []
    for number, values in enumerate(rows):
        arrays: dict[str, Any] = {"id": [number], **{name: [value] for name, value in zip(columns, values, strict=True)}}
        try:
            world.storage.append(table.path, pa.table(arrays, schema=schema), "writer", number)
        except InvalidData:
            continue
        accepted.append(number)
        if all(len(f"{name}={value}") <= MOST_FOLDER_BYTES for name, value in zip(columns, values, strict=True)):
            fitting.append(number)
    if not accepted:
        return
    outcomes = [world.tier(table), world.tier(table)]
    held = sorted(world.by_hand.rows(table.path)["id"].to_pylist()) if world.by_hand.exists(table.path) else []
    assert held == fitting, outcomes[0].error
    assert accepted == fitting or not is_limited, "rows were taken that no lake can hold"
    world.storage.drop_table(table.path)


drawn_tables = settings(max_examples=examples(5), phases=[Phase.generate])


def check_drawn_tables(world: LakeWorld, *, is_limited: bool) -> None:
    def check(drawn: tuple[list[str], list[tuple[str, ...]]]) -> None:
        check_rows(world, drawn, is_limited=is_limited)

    drawn_tables(given(tables())(check))()


@pytest.mark.in_turn("world")
def test_rows_that_the_cluster_takes_are_tiered(world: LakeWorld) -> None:
    check_drawn_tables(world, is_limited=True)


@pytest.mark.in_turn("world")
def test_on_fluss_rows_of_other_partitions_are_tiered(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fluss takes names of any length, as older versions of the embedded cluster did."""
    monkeypatch.setattr(partition_names, "MAX_FOLDER_BYTES", 1_000)
    check_drawn_tables(world, is_limited=False)


@pytest.mark.in_turn("world")
@pytest.mark.parametrize("without", ["limit", "stop"])
def test_the_draws_find_folders_that_no_file_system_takes(world: LakeWorld, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit at the write, and where there is none, without the stop of that partition alone."""
    monkeypatch.setattr(partition_names, "MAX_FOLDER_BYTES", 1_000)
    if without == "stop":
        monkeypatch.setattr(refused_records, "_is_name_too_long", lambda _: False)
    with pytest.raises(AssertionError):
        check_drawn_tables(world, is_limited=without == "limit")
