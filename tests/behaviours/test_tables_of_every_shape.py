"""Tables of every type, key, schema version and partition: after each round the lake equals the table for every reader."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.behaviours.deployment import Deployment, Row
from support.behaviours.lacks import Lack
from support.values.every_type import CASES, LATER, LATER_VALUES, ROWS
from tiering.model.rounds import RoundState

LONG_TEXT_CHARACTERS = 60_000
"""Characters, three bytes of UTF-8 each; the longest text of CASES would fill a batch of Fluss's client alone."""
BEFORE_THE_LAST_DAY = datetime(9999, 12, 30)
KEY_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
    (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")]),
    (pa.decimal128(38, 18), [Decimal("-99999999999999999999.999999999999999999"), Decimal("1e-18"), Decimal(0), Decimal(12)]),
    (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime(1582, 10, 10), datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(1970, 1, 1), BEFORE_THE_LAST_DAY]),
    (pa.string(), ["a", "\U0001f600", "'; --", "x" * 300]),
    (pa.binary(), [b"\x00", b"\xff" * 40]),
]
RARE_KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.timestamp("us", "UTC"), [datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)]),
    (pa.string(), ["", "a"]),
    (pa.binary(), [b"", b"\x00"]),
]


def rows_of_every_type(first_id: int, deployment: Deployment, key: bool) -> list[Row]:
    values = {name: list(cells) for name, (_, cells) in CASES.items()}
    values["a_long_text"] = [text and text[:LONG_TEXT_CHARACTERS] for text in values["a_long_text"]]
    if key and not deployment.backend.can(Lack.EVERY_TIMESTAMP_UPSERTED):
        values["a_timestamp"][2] = BEFORE_THE_LAST_DAY
    return [{"id": first_id + row, **{name: cells[row] for name, cells in values.items()}} for row in range(ROWS)]


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary key"])
def test_every_type_in_both_kinds_of_tables(deployment: Deployment, key: tuple[str, ...]) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, (kind, _) in CASES.items())])
    table = deployment.make("every_type", schema, key=key)
    write = table.upsert if key else table.append
    write(rows_of_every_type(0, deployment, bool(key)))
    table.tiered()
    write(rows_of_every_type(ROWS, deployment, bool(key)))
    if key:
        changed = rows_of_every_type(0, deployment, True)
        table.upsert([{**row, "id": ROWS - 1 - row["id"]} for row in changed])
        table.delete([{"id": ROWS}, {"id": 99}])
    table.tiered()


def test_keys_of_every_type_lie_where_the_lake_looks_for_them(deployment: Deployment) -> None:
    types = [*KEY_TYPES, *(RARE_KEYS if deployment.backend.can(Lack.EVERY_BUCKET_KEY) else [])]
    for number, (kind, keys) in enumerate(types):
        schema = pa.schema([pa.field("k", kind, nullable=False), pa.field("text", pa.string())])
        table = deployment.make(f"keys{number}", schema, key=("k",), buckets=3)
        table.upsert([{"k": key, "text": "first"} for key in keys])
        table.tiered()
        table.upsert([{"k": key, "text": "second"} for key in keys[1:]])
        table.delete([{"k": keys[-1]}])
        table.tiered()
        table.drop()


@pytest.mark.needs(Lack.ADDED_COLUMNS)
@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary key"])
def test_several_schema_versions_in_one_round_and_over_several(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = deployment.make("versions", key=key, buckets=1)
    write = table.upsert if key else table.append
    write([{"id": 1, "text": "first version"}])
    table.tiered()
    table.add_column("note", pa.string())
    write([{"id": 2, "text": "second", "note": "a note"}])
    table.add_column(LATER.name, LATER.type)
    write([{"id": 10 + row, LATER.name: value} for row, value in enumerate(LATER_VALUES)])
    table.add_column("amount", pa.decimal128(38, 18))
    table.tiered()
    write([{"id": 30, "amount": Decimal("0.000000000000000001")}])
    if key:
        table.upsert([{"id": 1, "text": "now of the last version", "note": "new", "amount": Decimal(-1)}])
        table.delete([{"id": 2}])
    table.tiered()
    table.add_column("unused", pa.int16())
    assert table.tier().state is RoundState.EMPTY


@pytest.mark.needs(Lack.SEVERAL_BUCKET_KEYS)
def test_keys_of_several_columns_and_rows_that_are_only_keys(deployment: Deployment) -> None:
    schema = pa.schema([pa.field("line", pa.string(), nullable=False), pa.field("stop", pa.int32(), nullable=False)])
    table = deployment.make("stops", schema, key=("line", "stop"))
    table.upsert([{"line": line, "stop": stop} for line, stop in (("a", 1), ("a", 2), ("", -5), ("é", 1))])
    table.tiered()
    table.delete([{"line": "a", "stop": 1}, {"line": "", "stop": -5}])
    table.upsert([{"line": "", "stop": -5}, {"line": "a", "stop": 3}])
    table.tiered()


@pytest.mark.parametrize("key", [(), ("region", "id")], ids=["log", "primary key"])
def test_partitions_come_and_go_and_their_names_come_back(deployment: Deployment, key: tuple[str, ...]) -> None:
    schema = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    table = deployment.make("regions", schema, key=key, partition_keys=("region",))
    write = table.upsert if key else table.append
    if key:  # the logs of some buckets begin with a deletion of nothing, for which Fluss uses an offset
        write([{"region": "north", "id": 0, "text": "made the partition"}])
        table.delete([{"region": "north", "id": number} for number in range(1, 6)])
    write([{"region": region, "id": number, "text": "first"} for region in ("north", "south") for number in range(5)])
    table.tiered()
    deployment.cluster.drop_partition(table.path, "north")
    write([{"region": region, "id": number, "text": "second"} for region in ("south", "east-1") for number in range(5, 8)])
    table.tiered()
    if key:
        table.delete([{"region": "south", "id": 0}, {"region": "south", "id": 99}])
        table.upsert([{"region": "south", "id": 1, "text": "changed"}])
    else:  # the lake keeps the rows of a partition that is gone, under its name
        write([{"region": "north", "id": 100, "text": "a new partition of that name"}])
    table.tiered()
    regions = [row["region"] for row in table.lake_rows().to_pylist()]
    assert regions.count("north") == (5 if key else 6)


def test_a_partition_may_have_several_columns(deployment: Deployment) -> None:
    fields = [pa.field(name, pa.string(), nullable=False) for name in ("country", "town")]
    table = deployment.make("towns", pa.schema([*fields, pa.field("id", pa.int64())]), partition_keys=("country", "town"))
    table.append([{"country": country, "town": town, "id": 1} for country, town in (("no", "oslo"), ("no", "bergen"), ("fi", "turku"))])
    table.tiered()
    partitions = {partition.partition_name for partition in deployment.cluster.partitions(table.info)}
    assert partitions == {"no$oslo", "no$bergen", "fi$turku"}


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary key"])
def test_rounds_without_news_are_empty_and_leave_the_lake_alone(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = deployment.make("quiet", key=key)
    assert table.tier().state is RoundState.EMPTY
    table.write({number: f"row {number}" for number in range(5)})
    table.tiered()
    snapshots = deployment.by_hand.snapshots(table.path)
    deployment.restart()
    assert table.tier().state is RoundState.EMPTY
    if key:
        table.delete([{"id": 77}])
        assert table.tier().state in (RoundState.EMPTY, RoundState.SUCCEEDED)  # Fluss uses an offset for it
        table.check()
    else:
        assert deployment.by_hand.snapshots(table.path) == snapshots
    table.write({9: "news"})
    table.tiered()
