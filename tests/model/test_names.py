"""Names of tables as people write them."""

from __future__ import annotations

import pytest

from tiering.errors import InvalidName
from tiering.model.names import parse_table_path


@pytest.mark.parametrize("text", ["sales.orders", "fluss.sales.orders", " FLUSS.sales.`orders` "])
def test_a_table_may_be_named_with_our_catalog(text: str) -> None:
    assert str(parse_table_path(text)) == "sales.orders"


@pytest.mark.parametrize("text", ["a.sales.orders", "lake.sales.orders", "orders", "a.b.c.d", ""])
def test_another_catalog_and_another_number_of_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_table_path(text)
