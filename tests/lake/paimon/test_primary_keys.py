"""Primary-key tables: sorted runs by Arrow, merged by pypaimon as everybody reads them, equal to a dict that applies the changes."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pypaimon.table.row.generic_row import GenericRowSerializer

from support.lakes.paimon_kit import Change, KeyedRounds, PaimonKit
from support.values.any_values import build
from tiering.errors import BaseMoved, InvalidArgument, UnsupportedType
from tiering.lake.paimon.commit import manifests
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.writing import primary_key_writer
from tiering.lake.writing import keys as folding
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType

INSERT, BEFORE, AFTER, DELETE = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
CREATED = datetime(2024, 1, 1, tzinfo=UTC)


def keyed_table(columns: pa.Schema = COLUMNS, key: tuple[str, ...] = ("id",), **more: Any) -> TableInfo:
    return TableInfo(8, TablePath("sales", "customers"), TableType.PRIMARY_KEY, columns, 1, CREATED, primary_key=key, **more)


def named(changes: Sequence[tuple[ChangeType, int, str]]) -> list[Change]:
    return [(kind, {"id": key, "name": name}) for kind, key, name in changes]


def names(kit: PaimonKit, table: TableInfo) -> dict[int, str]:
    rows = kit.read(table).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


@pytest.mark.parametrize("fold", ["one run", "many runs", "keys by duckdb"])
def test_many_rounds_equal_a_dict(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch, fold: str) -> None:
    if fold == "many runs":
        monkeypatch.setattr(primary_key_writer, "RUN_BYTES", 2_000)
    if fold == "keys by duckdb":
        monkeypatch.setattr(folding, "MANY_KEYS", 0)
    table, rng, truth = keyed_table(), random.Random(5), dict[int, str]()
    rounds = KeyedRounds(kit, table)
    for number in range(5):
        changes: list[tuple[ChangeType, int, str]] = []
        for step in range(300):
            key, name = rng.randrange(120), f"{number}-{step}"
            if key not in truth:
                changes.append((INSERT, key, name))
                truth[key] = name
            elif rng.random() < 0.3:
                changes.append((DELETE, key, truth.pop(key)))
            else:
                changes += [(BEFORE, key, truth[key]), (AFTER, key, name)]
                truth[key] = name
        rounds.tier(f"r{number}", named(changes))
        assert names(kit, table) == truth


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [5, -7, 2**40, 0]),
    "text": (pa.string(), ["b", "ä", "a" * 20, ""]),
    "bytes": (pa.binary(), [b"\xff", b"\x00", b"zz" * 9, b"a"]),
    "decimal": (pa.decimal128(20, 3), [Decimal("-1.500"), Decimal("10.000"), Decimal("2.000"), Decimal("0.001")]),
    "day": (pa.date32(), [date(2024, 1, 1), date(1969, 12, 31), date(2030, 1, 1), date(1970, 1, 1)]),
    "time": (pa.timestamp("us"), [datetime(2024, 1, 1, 0, 0, 0, 7), datetime(1969, 12, 31), datetime(2030, 1, 1), datetime(1970, 1, 1)]),
    "instant": (pa.timestamp("us", "UTC"), [datetime(year, 1, 1, tzinfo=UTC) for year in (2024, 1969, 2030, 1970)]),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(kit: PaimonKit, name: str) -> None:
    kind, values = KEYS[name]
    columns = pa.schema([pa.field("k", kind, nullable=False), pa.field("n", pa.int32(), nullable=False), pa.field("v", pa.int32())])
    table = keyed_table(columns, ("k", "n"), bucket_keys=("n",))
    rounds = KeyedRounds(kit, table)
    rounds.tier("r1", [(INSERT, {"k": value, "n": n, "v": 1}) for value in values for n in (1, 2)])
    rounds.tier(
        "r2", [(BEFORE, {"k": values[0], "n": 1, "v": 1}), (AFTER, {"k": values[0], "n": 1, "v": 2}), (DELETE, {"k": values[1], "n": 2})]
    )
    truth = {(value, n): 1 for value in values for n in (1, 2)}
    truth[values[0], 1] = 2
    del truth[values[1], 2]
    rows = kit.read(table).to_pylist()
    assert {(row["k"], row["n"]): row["v"] for row in rows} == truth
    assert len(rows) == len(truth)


FAR = {
    "day": (pa.date32(), [-(2**31), -719_163, 0, 2_932_897, 2**31 - 1]),
    "time": (pa.timestamp("us"), [-(2**63), -62_135_596_800_000_001, -1, 253_402_300_800_000_000, 2**63 - 1]),
    "instant": (pa.timestamp("us", "UTC"), [-(2**63), -62_135_596_800_000_001, -1, 253_402_300_800_000_000, 2**63 - 1]),
}
"""Keys at the ends of their types, and around the years 1 and 9999."""


@pytest.mark.parametrize("name", FAR)
def test_keys_outside_of_the_years_that_python_has_are_tiered(kit: PaimonKit, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's dates end at 9999. Manifests say the keys exactly, for Paimon's readers merge files by them, and are merged themselves."""
    monkeypatch.setattr(manifests, "MERGE_COUNT", 2)
    kind, values = FAR[name]
    table = keyed_table(pa.schema([pa.field("k", kind, nullable=False), pa.field("n", pa.int32(), nullable=False)]), ("k", "n"))
    rounds = KeyedRounds(kit, table)
    for number, half in enumerate((values[:3], values[2:], values[:1])):
        keys = build(kind, half)
        rounds.tier(f"r{number}", [(INSERT, {"k": key, "n": number}) for key in keys])
    loaded = cast(LoadedTable, kit.view(table).handle)
    assert loaded.head is not None
    entries = {entry.file.max_sequence_number: entry.file for entry in manifests.Manifests(loaded).live_entries(loaded.head)}
    assert [_stored_key(entries[place].min_key) for place in sorted(entries)] == [values[0], values[2], values[0]]
    assert [_stored_key(entries[place].max_key) for place in sorted(entries)] == [values[2], values[-1], values[0]]


def _stored_key(row: Any) -> int:
    """The first field of a key in a manifest, by the layout of Paimon's `BinaryRow`: a date, or a timestamp of 6 digits in microseconds."""
    content = GenericRowSerializer.to_bytes(row)[4:]
    if row.fields[0].type.type.upper() == "DATE":
        return cast(int, struct.unpack_from("<i", content, 8)[0])
    (halves,) = struct.unpack_from("<Q", content, 8)
    (milliseconds,) = struct.unpack_from("<q", content, halves >> 32)
    return cast(int, milliseconds * 1_000 + (halves & 0xFFFFFFFF) // 1_000)


def test_a_table_looks_as_fluss_makes_it_and_files_are_sorted_runs_beside_all_changes(kit: PaimonKit) -> None:
    table = keyed_table()
    KeyedRounds(kit, table).tier(
        "r1", named([(INSERT, 2, "b"), (INSERT, 1, "a"), (BEFORE, 2, "b"), (AFTER, 2, "c"), (INSERT, 3, "d"), (DELETE, 3, "d")])
    )
    schema = json.loads((kit.folder(table) / "schema" / "schema-0").read_text())
    assert schema["primaryKeys"] == ["id"]
    assert schema["options"].items() >= {"bucket": "1", "bucket-key": "id", "changelog-producer": "input"}.items()
    data, changelog = (kit.folder(table) / "bucket-0").glob("*nonce-r1-0-0*"), (kit.folder(table) / "bucket-0").glob("*changelog*")
    rows = pq.read_table(next(data)).select(["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "name"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, 1, 0, "a"), (2, 3, 2, "c"), (3, 5, 3, "d")]
    kinds = pq.read_table(next(changelog))["_VALUE_KIND"].to_pylist()
    assert kinds == [0, 0, 1, 2, 0, 3]
    stored = kit.by_pypaimon(table).snapshot_manager().get_latest_snapshot()
    assert (stored.delta_record_count, stored.changelog_record_count, stored.commit_kind) == (3, 6, "APPEND")


def test_partitions_have_buckets_of_their_own(kit: PaimonKit) -> None:
    columns = pa.schema([*COLUMNS, pa.field("region", pa.string(), nullable=False)])
    table = keyed_table(columns, ("region", "id"), partition_keys=("region",))
    for number, region in enumerate(("eu", "us")):
        rounds = KeyedRounds(kit, table, BucketKey(number, 0), region)
        rounds.tier(f"{region}-1", [(INSERT, {"id": 1, "name": region, "region": region})])
        rounds.tier(f"{region}-2", [(AFTER, {"id": 1, "name": region * 2, "region": region})])
    rows = kit.read(table).select(["region", "id", "name"]).sort_by("region").to_pylist()
    assert [tuple(row.values()) for row in rows] == [("eu", 1, "eueu"), ("us", 1, "usus")]
    assert kit.lake.row_offsets(table, kit.view(table), {"eu": 1}).places == {("eu", 0)}


def test_a_kv_snapshot_replaces_whatever_stands_in_its_bucket(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MERGE_COUNT", 3)
    table = keyed_table(bucket_keys=("id",))
    rounds = KeyedRounds(kit, table)
    rounds.tier("r1", named([(INSERT, key, "old") for key in range(10)]))
    rounds.tier("r2", named([(INSERT, key, "new") for key in range(5, 8)]), replaces=True)
    assert names(kit, table) == dict.fromkeys(range(5, 8), "new")
    assert kit.view(table).snapshots[2].operation == "OVERWRITE"
    for number in range(8):
        rounds.tier(f"r3-{number}", named([(AFTER, 5, f"newer {number}")]))
    assert names(kit, table) == {5: "newer 7", 6: "new", 7: "new"}


def test_rows_of_others_that_came_meanwhile_are_never_taken_for_older_ones(kit: PaimonKit) -> None:
    table = keyed_table()
    rounds = KeyedRounds(kit, table)
    rounds.tier("r1", named([(INSERT, 1, "one")]))
    factory, committable, base, marker = rounds.prepare("r2", named([(AFTER, 1, "two")]))
    builder = kit.by_pypaimon(table).new_batch_write_builder()
    write = builder.new_write()
    row = {"id": 1, "name": "foreign", "__bucket": 0, "__offset": 1, "__timestamp": CREATED}
    columns = table.lake_schema().set(4, pa.field("__timestamp", pa.timestamp("ms", "UTC")))
    write.write_arrow(pa.Table.from_pylist([row], schema=columns))
    builder.new_commit().commit(write.prepare_commit())
    with pytest.raises(BaseMoved, match="got rows up to sequence number"):
        factory.create_committer().commit(committable, kit.view(table), marker)
    assert names(kit, table) == {1: "foreign"}
    rounds.tier("r3", named([(AFTER, 1, "two")]))
    assert names(kit, table) == {1: "two"}
    assert base.head == 1


@pytest.mark.parametrize(
    ("columns", "key", "error"),
    [
        (pa.schema([pa.field("id", pa.float64(), nullable=False)]), ("id",), UnsupportedType),
        (pa.schema([pa.field("id", pa.int64())]), ("id",), InvalidArgument),
    ],
)
def test_a_key_that_is_no_value_is_refused(kit: PaimonKit, columns: pa.Schema, key: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match="'id'"):
        kit.lake.check_schema(keyed_table(columns, key))
