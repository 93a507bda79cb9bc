"""Paimon tables as rounds leave them, read by every engine that we can have: each answer is right."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from support.readers.environment import TEST_SECONDS
from support.readers.matrix import Cell, difference_of
from support.readers.page import PAGE, paimon_cells, section, sections
from support.readers.source_tables import LAYOUTS

READERS = ("pypaimon", "paimon-java", "duckdb", "pypaimon-rust")
pytestmark = pytest.mark.timeout(TEST_SECONDS)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Cell]:
    return paimon_cells(tmp_path_factory.mktemp("paimon-readers"))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS["paimon"])
def test_a_reader_has_the_right_rows_or_a_named_limit(cells: Sequence[Cell], layout: str, reader: str) -> None:
    of_reader = [cell for cell in cells if (cell.case.layout, cell.reader.name) == (layout, reader)]
    assert len(of_reader) > 40
    assert {cell.case.title: cell.difference for cell in of_reader if not cell.is_explained} == {}


def test_the_page_is_made_of_these_results(cells: Sequence[Cell]) -> None:
    assert {cell.reader.name for cell in cells} == set(READERS)
    _, of_format = sections(PAGE.read_text())
    assert of_format["Paimon"] == section("Paimon", cells), "PYTHONPATH=tests .venv/bin/python -m support.readers.page writes it anew"


def test_a_difference_is_seen() -> None:
    """Of rows, of their number, of types and of columns; else the matrix would be equal whatever a reader answers."""
    right = pa.table({"id": [1, 2], "text": ["a", None]})
    assert difference_of(right.take([1, 0]), right) is None
    assert difference_of(pa.table({"id": [1, 2], "text": ["a", ""]}), right) == "{'id': 2, 'text': ''} for {'id': 2, 'text': None}"
    assert difference_of(right.slice(0, 1), right) == "1 rows for 2"
    assert difference_of(pa.concat_tables([right, right.slice(0, 1)]), right) == "3 rows for 2"
    assert difference_of(right.rename_columns(["id", "name"]), right) == "columns ['id', 'name']"
    assert str(difference_of(right.set_column(0, "id", pa.array([1, 2], pa.int32())), right)).startswith("types ")
    assert difference_of("ValueError: no", right) == "ValueError: no"
