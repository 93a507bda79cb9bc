"""Every type a table may have, nested ones too: what is appended is read back equal, and what is refused is named by its path."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, EmbeddedCluster, make_table, scan_all
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidArgument, InvalidData, InvalidName, LakewardError, UnsupportedType

ADDRESS = pa.struct([("street", pa.string()), ("at", pa.struct([("x", pa.float64()), ("y", pa.float64())]))])
EMOJI = "👩‍👩‍👧‍👦 \x00 ß\n\"'"

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-(2**7), 2**7 - 1]),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [float("inf"), -0.0, 1.401298464324817e-45]),
    "double": (pa.float64(), [float("-inf"), 5e-324, 1.7976931348623157e308]),
    "decimal": (pa.decimal128(38, 18), [Decimal("-99999999999999999999.999999999999999999"), Decimal("1E-18")]),
    "decimal of one digit": (pa.decimal128(1, 0), [Decimal(-9)]),
    "string": (pa.string(), ["", EMOJI, "é"]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(9999, 12, 31)]),
    "timestamp with zone": (pa.timestamp("us", "UTC"), [datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]),
    "list": (pa.list_(pa.int64()), [[], [None], [1, None, 2]]),
    "list of lists": (pa.list_(pa.list_(pa.string())), [[[], None, ["", EMOJI]]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("", None), ("k", 1)]]),
    "map of structs": (pa.map_(pa.date32(), ADDRESS), [[(date(1969, 1, 1), {"street": None, "at": {"x": 1.5, "y": None}})]]),
    "struct": (ADDRESS, [{"street": EMOJI, "at": None}, {"street": None, "at": {"x": None, "y": 0.0}}]),
    "list of structs of lists": (
        pa.list_(pa.struct([("a", pa.list_(pa.decimal128(38, 18))), ("m", pa.map_(pa.int8(), pa.binary()))])),
        [[{"a": [Decimal("0.5"), None], "m": [(1, b"")]}, None], []],
    ),
}


@pytest.mark.parametrize("bucket_count", [1, 3])
def test_every_type_is_read_back_equal_with_nulls_and_extreme_values(cluster: EmbeddedCluster, bucket_count: int) -> None:
    fields = [pa.field("id", pa.int64(), nullable=False), *(pa.field(f"c{index}", kind) for index, (kind, _) in enumerate(TYPES.values()))]
    table = make_table(cluster, bucket_count=bucket_count, bucket_keys=("id",), schema=pa.schema(fields))
    assert table.schema.types == [field.type for field in fields]
    longest = max(len(values) for _, values in TYPES.values())
    columns = {f"c{index}": [*values, *[None] * (longest + 1 - len(values))] for index, (_, values) in enumerate(TYPES.values())}
    rows = pa.table({"id": range(longest + 1), **columns}, schema=table.schema)

    cluster.append(PATH, rows, "writer", 0)
    cluster.append(PATH, rows.slice(1, 2), "writer", 1)

    scanned = scan_all(cluster, table).sort_by([("id", "ascending"), ("__offset", "ascending")])
    expected = pa.concat_tables([rows, rows.slice(1, 2)]).sort_by("id")
    assert scanned.select(rows.column_names).to_pylist() == expected.to_pylist()


def test_a_table_without_rows_has_its_types(cluster: EmbeddedCluster) -> None:
    schema = pa.schema([(f"c{index}", kind) for index, (kind, _) in enumerate(TYPES.values())])
    table = make_table(cluster, schema=schema)
    assert list(cluster.append(PATH, schema.empty_table(), "writer", 0)) == []
    assert scan_all(cluster, table).schema == table.lake_schema()
    assert scan_all(cluster, table).num_rows == 0


def test_strings_of_a_megabyte_go_in_and_come_back(cluster: EmbeddedCluster) -> None:
    schema = pa.schema([("s", pa.string()), ("l", pa.list_(pa.struct([("b", pa.binary())])))])
    table = make_table(cluster, schema=schema)
    texts = [character * (1024 * 1024 // len(character.encode())) for character in ("x", "é", "👍", "\x00")]
    nested = [[{"b": text.encode()}] for text in texts]
    rows = pa.table({"s": texts, "l": [*nested[:2], None, []]}, schema=schema)

    ranges = LogWriter(cluster, PATH, "writer").append(rows)

    assert len(ranges) > 1  # more than one message takes
    assert scan_all(cluster, table).select(["s", "l"]).to_pylist() == rows.to_pylist()


def test_layout_forms_within_are_stored_as_one_and_nullable(cluster: EmbeddedCluster) -> None:
    loose = pa.schema(
        [
            ("l", pa.large_list(pa.field("x", pa.large_string(), nullable=False))),
            ("f", pa.list_(pa.timestamp("ms"), 2)),
            ("s", pa.struct([pa.field("d", pa.date64(), nullable=False)])),
            ("m", pa.map_(pa.large_string(), pa.string_view())),
        ]
    )
    rows = [{"l": ["a"], "f": [datetime(1969, 1, 1), None], "s": {"d": date(2024, 1, 1)}, "m": [("k", "v")]}]

    table = make_table(cluster, schema=loose)
    cluster.append(PATH, pa.Table.from_pylist(rows, schema=loose), "writer", 0)

    assert table.schema == pa.schema(
        [
            ("l", pa.list_(pa.string())),
            ("f", pa.list_(pa.timestamp("us"))),
            ("s", pa.struct([("d", pa.date32())])),
            ("m", pa.map_(pa.string(), pa.string())),
        ]
    )
    assert [str(field.type).split("<")[1].split(":")[0] for field in table.schema][:2] == ["element", "element"]
    assert scan_all(cluster, table).select(loose.names).to_pylist() == rows


DEEP: pa.DataType = pa.int64()
for _ in range(17):
    DEEP = pa.list_(DEEP)


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        (pa.list_(pa.struct([("b", pa.uint8())])), UnsupportedType, r"'a\.element\.b' has type uint8"),
        (pa.struct([("t", pa.timestamp("ns"))]), UnsupportedType, r"'a\.t' has type timestamp\[ns\]"),
        (pa.map_(pa.string(), pa.time64("us")), UnsupportedType, r"'a\.value' has type time64\[us\]"),
        (pa.map_(pa.duration("s"), pa.string()), UnsupportedType, r"'a\.key' has type duration\[s\]"),
        (pa.map_(pa.list_(pa.int8()), pa.string()), UnsupportedType, r"'a\.key' .* keys cannot be nested"),
        (pa.list_(pa.month_day_nano_interval()), UnsupportedType, r"'a\.element' has type month_day_nano_interval"),
        (pa.list_(pa.list_(pa.null())), UnsupportedType, r"'a\.element\.element' has type null"),
        (pa.list_(pa.decimal256(50, 2)), UnsupportedType, r"'a\.element' has type decimal256"),
        (pa.struct([("x", pa.struct([]))]), UnsupportedType, r"'a\.x' has type struct<>"),
        (pa.struct([("x", pa.int8()), ("X", pa.int8())]), InvalidName, "'x' and 'X'"),
        (pa.list_(pa.struct([("a.b", pa.int8())])), InvalidName, r"'a\.b'"),
        (pa.struct([(f"f{number}", pa.int8()) for number in range(2_000)]), InvalidArgument, "at most 2000"),
        (DEEP, UnsupportedType, r"'a\.element\.element"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_path(
    cluster: EmbeddedCluster, kind: pa.DataType, error: type[LakewardError], reason: str
) -> None:
    cluster.create_database("sales")
    with pytest.raises(error, match=reason):
        cluster.create_table(PATH, TableSpec(pa.schema([("a", kind)])))
    assert cluster.tables() == []


def test_nested_rows_that_do_not_fit_are_refused_with_the_column(cluster: EmbeddedCluster) -> None:
    make_table(cluster, schema=pa.schema([("a", pa.struct([("x", pa.int64())]))]))
    for kind in (pa.struct([("y", pa.int64())]), pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64()), ("y", pa.int64())])):
        with pytest.raises(InvalidData, match="'a' is struct"):
            cluster.append(PATH, pa.table({"a": pa.array([None], kind)}), "writer", 0)


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.struct([("x", pa.int8())]), pa.map_(pa.string(), pa.int8())])
def test_nested_columns_choose_no_bucket_and_no_partition(cluster: EmbeddedCluster, kind: pa.DataType) -> None:
    cluster.create_database("sales")
    schema = pa.schema([pa.field("a", kind, nullable=False)])
    with pytest.raises(UnsupportedType, match="bucket key"):
        cluster.create_table(PATH, TableSpec(schema, 2, ("a",)))
    with pytest.raises(UnsupportedType, match="partition column"):
        cluster.create_table(PATH, TableSpec(schema, partition_keys=("a",)))
