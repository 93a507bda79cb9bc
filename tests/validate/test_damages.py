"""The tables of docs/validate.md about damages: each is done to a table of each kind, and named by the checks that the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.damages import Upkeep, damaged_tables, merge_in_a_round, rewrite_in_upkeep_rounds
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LAKE_KINDS, LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableType

PAGE = Path(__file__).parents[2] / "docs" / "validate.md"
HEADINGS = {TableType.LOG: "Log tables", TableType.PRIMARY_KEY: "Primary-key tables"}
COLUMNS = {"iceberg-system-columns": 1, "paimon-system-columns": 2, "iceberg-clean": 3, "paimon-clean": 4}
"""Where a kind of lake tables stands in these tables."""


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


AFTER_UPKEEP = 5
"""The column that says what is found after upkeep, where that is something else."""
SAME = "the same"


def documented(table_type: TableType, kind: LakeKind, *, after_upkeep: bool = False) -> dict[str, str]:
    """By damage what the page says."""
    _, _, table = PAGE.read_text().partition(f"| {HEADINGS[table_type]} |")
    cells = {}
    for line in table.split("\n\n")[0].splitlines()[2:]:
        row = [cell.strip() for cell in line.strip("|").split("|")]
        cells[row[0]] = row[COLUMNS[kind.name]] if not after_upkeep or row[AFTER_UPKEEP] == SAME else row[AFTER_UPKEEP]
    return cells


@pytest.mark.in_turn("world", "kind")
@pytest.mark.parametrize("table_type", HEADINGS, ids=lambda table_type: table_type.value.lower())
@pytest.mark.parametrize(("world", "kind"), [(kind, kind) for kind in LAKE_KINDS], ids=lambda kind: kind.name, indirect=["world"])
def test_each_damage_is_named_by_the_checks_that_the_page_says(world: LakeWorld, kind: LakeKind, table_type: TableType) -> None:
    assert documented(table_type, kind) == damaged_tables(world, table_type)


UPKEEP = [
    *((merge_in_a_round, kind, TableType.LOG) for kind in LAKE_KINDS),
    *((merge_in_a_round, kind, TableType.PRIMARY_KEY) for kind in (ICEBERG, ICEBERG_CLEAN)),
    *((rewrite_in_upkeep_rounds, kind, table_type) for kind in LAKE_KINDS for table_type in HEADINGS),
]


@pytest.mark.in_turn("upkeep", "world", "kind", "table_type")
@pytest.mark.parametrize(
    ("upkeep", "world", "kind", "table_type"),
    [(upkeep, kind, kind, table_type) for upkeep, kind, table_type in UPKEEP],
    ids=[f"{upkeep.__name__}-{kind.name}-{table_type.value.lower()}" for upkeep, kind, table_type in UPKEEP],
    indirect=["world"],
)
def test_after_upkeep_each_damage_is_named_as_the_page_says(
    world: LakeWorld, kind: LakeKind, table_type: TableType, upkeep: Upkeep
) -> None:
    assert documented(table_type, kind, after_upkeep=True) == damaged_tables(world, table_type, upkeep)
