"""`where` of rewrite_data_files: which partitions match, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.worlds.memory_coordinator import table_info
from tiering.coordinator.call_support.partition_condition import matching_partitions
from tiering.errors import InvalidArgument

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("Day", pa.date32()), ("hour", pa.int32())])
ORDERS = table_info("sales.orders", schema=SCHEMA, partition_keys=("region", "Day", "hour"))
NAMES = ["north$2026-01-01$5", "south$2026-01-01$-7", "north$2026-02-01$10"]


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("region = 'north'", {0, 2}),
        ('region = "north"', {0, 2}),
        ("'north' = region", {0, 2}),
        ("region <> 'north'", {1}),
        ("region != 'north' OR hour == 10", {1, 2}),
        ("REGION IN ('south', 'east')", {1}),
        ("region NOT IN ('south', 'east')", {0, 2}),
        ("region IN ('south', NULL)", {1}),
        ("region NOT IN ('south', NULL)", set()),
        ("day >= '2026-01-15'", {2}),
        ("`Day` < DATE '2026-01-15' AND NOT (region = 'south')", {0}),
        ("DATE '2026-01-15' <= day", {2}),
        ("hour > 5", {2}),
        ("5 >= hour", {0, 1}),
        ("hour = -7", {1}),
        ("hour BETWEEN -7 AND 5", {0, 1}),
        ("hour NOT BETWEEN -7 AND 5", {2}),
        ("hour > 9", {2}),
        ("region IS NULL", set()),
        ("region IS NOT NULL", {0, 1, 2}),
        ("region = NULL OR hour = 5", {0}),
        ("NOT (region = NULL)", set()),
        ("true", {0, 1, 2}),
        ("region > 'o'", {1}),
        (" OR ".join(["hour = 5"] * 200), {0}),
    ],
)
def test_a_condition_is_true_for_some_partitions(where: str, numbers: set[int]) -> None:
    assert matching_partitions(where, ORDERS, NAMES) == {NAMES[number] for number in numbers}


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("id > 5", "names 'id', which is no partition column"),
        ("region = 'north' AND amount > 5", "names 'amount', which is no partition column"),
        ("orders.region = 'north'", "names 'orders.region', which is no partition column"),
        ("upper(region) = 'NORTH'", "\"UPPER(region) = 'NORTH'\", and not a comparison of the column 'region' with a literal"),
        ("region LIKE 'n%'", "of the column 'region' with a literal"),
        ("region = region", "of the column 'region' with a literal"),
        ("region", "of the column 'region' with a literal"),
        ("region IN (SELECT 'north')", "of the column 'region' with a literal"),
        ("hour + 1 = 5", "of the column 'hour' with a literal"),
        ("(region IS TRUE)", "of the column 'region' with a literal"),
        ("1 = 1", "not a comparison with a literal"),
        ("hour = 'five'", "the column 'hour', which is INT, with \"'five'\""),
        ("hour = 1.5", "the column 'hour', which is INT, with '1.5'"),
        ("region = 5", "the column 'region', which is STRING, with '5'"),
        ("region = DATE '2026-01-01'", "the column 'region', which is STRING, with"),
        ("day = '2026-13-01'", "the column 'Day', which is DATE, with \"'2026-13-01'\""),
        ("day = 20260101", "the column 'Day', which is DATE, with '20260101'"),
        ("", "the condition is empty"),
        ("region =", "cannot be read as SQL"),
        ("region = 'a'; DROP TABLE x", "'where'"),
        ("region = 'a' ORDER BY 1", "cannot be read as SQL"),
        ("'unclosed", "cannot be read as SQL"),
        ("(" * 4_000, "'where'"),
        ("NOT " * 1_000 + "true", "nested too deep"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(where: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        matching_partitions(where, ORDERS, NAMES)
    assert words in raised.value.message
    assert raised.value.message.startswith("the argument 'where' is not a condition over the partition columns of sales.orders: ")
    assert len(raised.value.message) < 300
    assert "the columns region STRING, Day DATE, hour INT with literals" in raised.value.hint


def test_a_table_without_partitions_takes_no_condition() -> None:
    with pytest.raises(InvalidArgument, match="has no partitions") as raised:
        matching_partitions("id > 5", table_info("sales.orders"), [])
    assert raised.value.hint == "Leave 'where' out."
