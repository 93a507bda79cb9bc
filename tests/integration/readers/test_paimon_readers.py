"""Paimon tables as rounds leave them, read by every engine that we can have: each answer is right."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from support.readers.environment import TEST_SECONDS
from support.readers.matrix import AskedOnce, asked_once, difference_of
from support.readers.page import PAGE, section, sections
from support.readers.paimon_readers import PAIMON_LIMITS, paimon_readers
from support.readers.source_tables import LAYOUTS, TieredWorld
from support.readers.stories import all_cases

READERS = ("pypaimon", "paimon-java", "duckdb", "pypaimon-rust")
pytestmark = pytest.mark.timeout(TEST_SECONDS)


@pytest.fixture(scope="module")
def cells_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedOnce]:
    world = TieredWorld(tmp_path_factory.mktemp("paimon-readers"), "paimon")
    yield asked_once(all_cases(world), paimon_readers(world.warehouse), PAIMON_LIMITS)
    world.close()


@pytest.mark.soak
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS["paimon"])
def test_a_reader_has_the_right_rows_or_a_named_limit(cells_of: AskedOnce, layout: str, reader: str) -> None:
    of_reader = cells_of(layout, reader)
    assert len(of_reader) > 40
    assert {cell.case.title: cell.difference for cell in of_reader if not cell.is_explained} == {}


@pytest.mark.soak
def test_the_page_is_made_of_these_results(cells_of: AskedOnce) -> None:
    cells = [cell for reader in READERS for layout in LAYOUTS["paimon"] for cell in cells_of(layout, reader)]
    _, of_format = sections(PAGE.read_text())
    assert of_format["Paimon"] == section("Paimon", cells), "PYTHONPATH=tests .venv/bin/python -m support.readers.page writes it anew"


def test_a_difference_is_seen() -> None:
    """The comparison finds differences of rows, of their number, of types and of columns; else the matrix would always be equal."""
    right = pa.table({"id": [1, 2], "text": ["a", None]})
    assert difference_of(right.take([1, 0]), right) is None
    assert difference_of(pa.table({"id": [1, 2], "text": ["a", ""]}), right) == "{'id': 2, 'text': ''} for {'id': 2, 'text': None}"
    assert difference_of(right.slice(0, 1), right) == "1 rows for 2"
    assert difference_of(pa.concat_tables([right, right.slice(0, 1)]), right) == "3 rows for 2"
    assert difference_of(right.rename_columns(["id", "name"]), right) == "columns ['id', 'name']"
    assert str(difference_of(right.set_column(0, "id", pa.array([1, 2], pa.int32())), right)).startswith("types ")
    assert difference_of("ValueError: no", right) == "ValueError: no"
