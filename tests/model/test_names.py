"""Names of tables as people write them."""

from __future__ import annotations

import pytest

from tiering.errors import InvalidName
from tiering.model.names import CHANGELOG_SUFFIX, LAKE_SUFFIX, parse_table_path, sql_name
from tiering.model.tables import TablePath


@pytest.mark.parametrize("text", ["sales.orders", "fluss.sales.orders", " FLUSS.sales.`orders` "])
def test_a_table_may_be_named_with_our_catalog(text: str) -> None:
    assert str(parse_table_path(text)) == "sales.orders"


@pytest.mark.parametrize("text", ["a.sales.orders", "lake.sales.orders", "orders", "a.b.c.d", ""])
def test_another_catalog_and_another_number_of_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_table_path(text)


@pytest.mark.parametrize("path", [TablePath("sales", "orders"), TablePath("my-shop", "2026_orders")])
def test_the_full_name_of_a_table_in_sql_is_read_as_the_table(path: TablePath) -> None:
    assert parse_table_path(sql_name(path)) == path


def test_a_suffix_is_in_the_quotes_of_the_table() -> None:
    path = TablePath("my-shop", "orders")
    assert (sql_name(path, LAKE_SUFFIX), sql_name(path, CHANGELOG_SUFFIX)) == (
        "fluss.`my-shop`.`orders$lake`",
        "fluss.`my-shop`.`orders$changelog`",
    )
