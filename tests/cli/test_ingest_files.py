"""Files: types found over the whole file, broken rows named by line, nothing used before the last row was read."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiering.cli import ingest_csv, ingest_ndjson
from tiering.cli.ingest_files import FileFormat, Shape, format_of, parsed_file, read_csv
from tiering.errors import InvalidArgument, InvalidData, InvalidName, UnsupportedType


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def parse(file: Path, schema: pa.Schema | None = None, required: tuple[str, ...] = ()) -> pa.Table:
    with parsed_file(file, None, Shape(schema, required)) as parsed:
        table = pa.Table.from_batches(parsed.batches(), schema=parsed.schema)
        assert parsed.rows == table.num_rows
        return table


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few lines span several blocks."""
    monkeypatch.setattr(ingest_csv, "BLOCK_BYTES", 64)
    monkeypatch.setattr(ingest_ndjson, "BLOCK_BYTES", 64)


def test_csv_columns_get_the_narrowest_type_that_all_values_fit(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "x.csv",
        "i,f,d,t,z,b,s,mixed,none,hex\n"
        "1,1,2013-01-01,2013-01-01,2013-01-01T10:00:00Z,true,a,1,NA,0x1F\n"
        "-2,2.5,2013-12-31,2013-01-01 10:00:00.25,2013-01-01T10:00:00+02:00,FALSE,b,x,,0x20\n",
    )
    table = parse(file)
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {
        "i": pa.int64(),
        "f": pa.float64(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
        "s": pa.string(),
        "mixed": pa.string(),
        "none": pa.string(),
        "hex": pa.string(),
    }
    assert table.to_pylist()[1] == {
        "i": -2,
        "f": 2.5,
        "d": date(2013, 12, 31),
        "t": datetime(2013, 1, 1, 10, 0, 0, 250_000),
        "z": datetime(2013, 1, 1, 8, 0, tzinfo=UTC),
        "b": False,
        "s": "b",
        "mixed": "x",
        "none": None,
        "hex": "0x20",
    }


@pytest.mark.usefixtures("tiny_blocks")
def test_a_csv_type_is_decided_by_the_last_row_too(tmp_path: Path) -> None:
    late = write(tmp_path, "x.csv", "a,b,c\n" + "1,1,1\n" * 200 + "2.5,word,9\n")
    assert parse(late).schema.types == [pa.float64(), pa.string(), pa.int64()]
    assert parse(late)["b"].to_pylist() == ["1"] * 200 + ["word"]


def test_na_is_null_in_csv_unless_it_is_quoted(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", 'n,f,s\n1,NaN,NA\nNA,1.5,"NA"\n, NA ,""\n 7 ,nan,null\n')
    assert parse(file).to_pydict() == {"n": [1, None, None, 7], "f": [None, 1.5, None, None], "s": [None, "NA", "", None]}


def test_quotes_byte_order_marks_blank_lines_and_windows_ends_are_read(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", b'\xef\xbb\xbfid,text\r\n1,"a, ""b""\r\nc"\r\n\r\n2,d\r\n')
    assert parse(file).to_pydict() == {"id": [1, 2], "text": ['a, "b"\r\nc', "d"]}


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        ("1,a\n" * 100 + "2\n" + "3,c\n" * 50, 102, "1 columns where the header has 2"),
        ("1,a\n" * 100 + "2,b,c\n", 102, "3 columns where the header has 2"),
        ('1,"two\nlines"\n\n' * 10 + "2,b,c\n", 32, "3 columns"),
        ("1,a\n" * 30 + "2,\udcff\n", 32, "not UTF-8"),
    ],
)
def test_a_broken_csv_row_is_named_by_its_line(tmp_path: Path, rows: str, line: int, reason: str) -> None:
    file = write(tmp_path, "broken.csv", ("id,name\n" + rows).encode(errors="surrogateescape"))
    with pytest.raises(InvalidData, match=rf"broken\.csv, line {line}: .*{reason}"):
        parse(file)


@pytest.mark.usefixtures("tiny_blocks")
def test_a_value_of_the_wrong_type_is_named_by_its_line(tmp_path: Path) -> None:
    rows = '1,"two\nlines"\n\n' * 10 + "7,x\n" * 40 + "seven,b\n8,c\n"
    file = write(tmp_path, "wrong.csv", "id,name\n" + rows)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    with pytest.raises(InvalidData, match=r"wrong\.csv, line 72: column 'id': 'seven' is not a valid int64"):
        parse(file, schema)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int8(), "-128", -128),
        (pa.decimal128(5, 2), "1.25", Decimal("1.25")),
        (pa.binary(), "ab", b"ab"),
        (pa.float32(), "0.5", 0.5),
        (pa.timestamp("us", "UTC"), "2013-01-01T00:00:00Z", datetime(2013, 1, 1, tzinfo=UTC)),
        (pa.string(), "7", "7"),
    ],
)
def test_text_is_cast_to_the_type_of_an_existing_column(tmp_path: Path, kind: pa.DataType, text: str, value: object) -> None:
    assert parse(write(tmp_path, "x.csv", f"a\n{text}\n"), pa.schema([("a", kind)])).to_pydict() == {"a": [value]}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int8(), "128"),
        (pa.int64(), "1.5"),
        (pa.decimal128(5, 2), "1.255"),
        (pa.bool_(), "yes"),
        (pa.date32(), "2013-01-01 10:00:00"),
        (pa.timestamp("us"), "2013-01-01T00:00:00Z"),
        (pa.timestamp("us", "UTC"), "2013-01-01T00:00:00"),
        (pa.int64(), "9223372036854775808"),
    ],
)
def test_a_cast_that_would_lose_something_is_refused(tmp_path: Path, kind: pa.DataType, text: str) -> None:
    with pytest.raises(InvalidData, match="line 3: column 'a'"):
        parse(write(tmp_path, "x.csv", f"a\nNA\n{text}\n"), pa.schema([("a", kind)]))


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("", InvalidData, "is empty"),
        ("a,b,a\n1,2,3\n", InvalidData, "'a' is named twice"),
        ("a b\n1\n", InvalidName, "'a b'"),
        ("__offset\n1\n", InvalidName, "__offset"),
        ("a,A\n1,2\n", InvalidName, "same name"),
    ],
)
def test_bad_headers_are_refused(tmp_path: Path, text: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        parse(write(tmp_path, "x.csv", text))


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    table = parse(write(tmp_path, "x.csv", "a,b\n"))
    assert (table.num_rows, table.schema.types) == (0, [pa.string(), pa.string()])


def test_required_columns_become_not_null_and_a_gap_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", "id,n\n1,NA\n2,3\n")
    assert [field.nullable for field in parse(file, required=("id",)).schema] == [False, True]
    with pytest.raises(InvalidData, match="line 2: column 'n': a value is missing"):
        parse(file, required=("n",))


def test_columns_must_be_those_of_the_table(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", "b,a\n1,2\n")
    assert parse(file, pa.schema([("a", pa.int64()), ("b", pa.int8())])).to_pydict() == {"a": [2], "b": [1]}
    with pytest.raises(InvalidData, match="no column 'b'"):
        parse(file, pa.schema([("a", pa.int64())]))
    with pytest.raises(InvalidData, match="'c' is missing"):
        parse(file, pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())]))


def test_read_csv_takes_a_file_or_a_stream(tmp_path: Path) -> None:
    text = "a,b\n1,NA\n2,x\n"
    expected = pa.table({"a": [1, 2], "b": [None, "x"]})
    assert read_csv(io.BytesIO(text.encode())) == expected
    assert read_csv(write(tmp_path, "no-ending", text)) == expected


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"]))), min_size=1))
def test_what_pandas_style_quoting_writes_is_read_back(tmp_path: Path, rows: list[tuple[int, str]]) -> None:
    lines = [f'{number},"{text.replace(chr(34), chr(34) * 2)}"' for number, text in rows]
    file = write(tmp_path, "x.csv", "n,t\n" + "\n".join(lines) + "\n")
    schema = pa.schema([("n", pa.int64()), ("t", pa.string())])
    assert parse(file, schema).to_pydict() == {"n": [n for n, _ in rows], "t": [t for _, t in rows]}


@pytest.mark.usefixtures("tiny_blocks")
def test_ndjson_columns_are_those_of_all_lines(tmp_path: Path) -> None:
    lines = ['{"a": 1, "t": "2013-01-01T10:00:00Z", "s": "2013-01-01"}'] * 20 + ["", '{"a": 1.5, "b": true, "s": "x", "n": null}']
    table = parse(write(tmp_path, "x.ndjson", "\n".join(lines)))
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {
        "a": pa.float64(),
        "t": pa.timestamp("us", "UTC"),
        "s": pa.string(),
        "b": pa.bool_(),
        "n": pa.string(),
    }
    assert table.num_rows == 21
    assert table.to_pylist()[-1] == {"a": 1.5, "t": None, "s": "x", "b": True, "n": None}


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize(
    ("bad", "reason"),
    [("{nonsense", "line 32"), ('{"a": "text"}', "'a'|line 32"), ("[1]", "line 32"), ('{"a": 1', "line 32"), ('{"a": [1]}', "'a'|line 32")],
)
def test_a_broken_ndjson_line_is_named(tmp_path: Path, bad: str, reason: str) -> None:
    file = write(tmp_path, "broken.jsonl", '{"a": 1}\n' * 30 + "\n" + bad + "\n" + '{"a": 2}\n' * 30)
    with pytest.raises(InvalidData, match=rf"broken\.jsonl.*({reason})"):
        parse(file)


def test_an_ndjson_value_that_does_not_fit_the_table_is_named_by_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, "x.ndjson", '{"a": 1}\n\n{"a": 300}\n')
    with pytest.raises(InvalidData, match="line 3: column 'a': '300' is not a valid int8"):
        parse(file, pa.schema([("a", pa.int8())]))


@pytest.mark.usefixtures("tiny_blocks")
def test_nested_json_becomes_lists_and_structs_over_all_lines(tmp_path: Path) -> None:
    lines = ['{"tags": [], "at": {"x": 1}}'] * 20 + ['{"tags": ["2013-01-01"], "at": {"y": [{"z": null}], "x": 1.5}}', '{"at": null}']
    table = parse(write(tmp_path, "x.ndjson", "\n".join(lines)))
    inner = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {"tags": pa.list_(pa.string()), "at": inner}
    assert table.to_pylist()[-2:] == [
        {"tags": ["2013-01-01"], "at": {"x": 1.5, "y": [{"z": None}]}},
        {"tags": None, "at": None},
    ]


def test_nested_json_fits_the_tables_types_whatever_the_order_of_its_keys(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.struct([("day", pa.date32()), ("x", pa.int8()), ("more", pa.list_(pa.decimal128(5, 2)))]))])
    file = write(tmp_path, "x.ndjson", '{"at": {"x": 1, "day": "1969-12-31"}}\n{"at": {"more": [1.5, null]}}\n')
    assert parse(file, schema).to_pylist() == [
        {"at": {"day": date(1969, 12, 31), "x": 1, "more": None}},
        {"at": {"day": None, "x": None, "more": [Decimal("1.50"), None]}},
    ]


def test_nested_columns_without_a_value_in_the_file_fit_the_table(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("day", pa.date32()), ("more", pa.list_(pa.int8()))]))
    schema = pa.schema([("a", kind), ("b", kind), ("m", pa.map_(pa.string(), kind))])
    file = write(tmp_path, "x.ndjson", '{"a": null, "b": [], "m": null}\n{"a": null, "b": [null, {"more": null}]}\n')
    assert parse(file, schema).to_pylist() == [
        {"a": None, "b": [], "m": None},
        {"a": None, "b": [None, {"day": None, "more": None}], "m": None},
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"at": {"x": 300}}', "line 2: column 'at'"),
        ('{"at": {"other": 1}}', "column 'at' has the field 'other', which the table lacks"),
        ('{"at": [1]}', "column 'at'"),
        ('{"at": 1}', "column 'at'"),
    ],
)
def test_nested_values_that_do_not_fit_are_refused_never_dropped(tmp_path: Path, line: str, reason: str) -> None:
    file = write(tmp_path, "x.ndjson", "{}\n" + line + "\n")
    with pytest.raises(InvalidData, match=reason):
        parse(file, pa.schema([("at", pa.struct([("x", pa.int8())]))]))


def test_nested_parquet_keeps_its_values_and_an_instant_within_is_no_local_time(tmp_path: Path) -> None:
    kind = pa.list_(pa.map_(pa.string(), pa.struct([pa.field("t", pa.timestamp("ms")), ("n", pa.large_list(pa.int16()))])))
    rows = [[[("k", {"t": datetime(1969, 1, 1), "n": [1, None]})], None], None, []]
    pq.write_table(pa.table({"a": pa.array(rows, kind)}), tmp_path / "x.parquet")
    assert parse(tmp_path / "x.parquet")["a"].to_pylist() == rows
    instant = pa.list_(pa.map_(pa.string(), pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.list_(pa.int16()))])))
    with pytest.raises(InvalidData, match=r"'a\.element\.value\.t' is timestamp"):
        parse(tmp_path / "x.parquet", pa.schema([("a", instant)]))


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int16()),
            "when": pa.array([datetime(2013, 1, 1)] * 2, pa.timestamp("ms")),
            "category": pa.array(["a", None]).dictionary_encode(),
            "text": pa.array(["2013-01-01", "1"], pa.large_string()),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int16(), nullable=False),
                ("when", pa.timestamp("ms")),
                ("category", pa.dictionary(pa.int32(), pa.string())),
                ("text", pa.large_string()),
            ]
        ),
    )
    pq.write_table(table, tmp_path / "x.parquet")

    found = parse(tmp_path / "x.parquet")

    assert found.schema.types == [pa.int16(), pa.timestamp("us"), pa.string(), pa.string()]
    assert [field.nullable for field in found.schema] == [False, True, True, True]
    assert found["category"].to_pylist() == ["a", None]
    assert found["text"].to_pylist() == ["2013-01-01", "1"]


@pytest.mark.parametrize("kind", [pa.uint32(), pa.timestamp("ns"), pa.time64("us"), pa.list_(pa.uint64())])
def test_a_parquet_type_that_the_lake_lacks_is_refused_by_name(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"odd": pa.array([], kind)}), tmp_path / "x.parquet", version="2.6")
    with pytest.raises(UnsupportedType, match="'odd") as error:
        parse(tmp_path / "x.parquet")
    assert str(kind.value_type if isinstance(kind, pa.ListType) else kind) in error.value.message


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(100_000))}), tmp_path / "x.parquet", compression="none", use_dictionary=False)
    content = (tmp_path / "x.parquet").read_bytes()
    with pytest.raises(InvalidData, match=r"cut\.parquet"):
        parse(write(tmp_path, "cut.parquet", content[:-10]))
    with pytest.raises(InvalidData, match=r"text\.parquet"):
        parse(write(tmp_path, "text.parquet", "a,b\n"))
    with pytest.raises(InvalidData, match=r"holes\.parquet"):
        parse(write(tmp_path, "holes.parquet", content[:4] + b"\xff" * 1_000 + content[1_004:]))


def test_an_instant_is_never_taken_for_a_local_time(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([datetime(2013, 1, 1)], pa.timestamp("us"))}), tmp_path / "x.parquet")
    with pytest.raises(InvalidData, match="'t' is timestamp"):
        parse(tmp_path / "x.parquet", pa.schema([("t", pa.timestamp("us", "UTC"))]))


@pytest.mark.parametrize(("name", "expected"), [("a.CSV", "csv"), ("b.parquet", "parquet"), ("c.jsonl", "ndjson"), ("d.ndjson", "ndjson")])
def test_the_ending_tells_the_format(name: str, expected: str) -> None:
    assert format_of(Path(name)) is FileFormat(expected)


def test_an_unknown_ending_or_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"x\.xlsx"):
        parse(write(tmp_path, "x.xlsx", ""))
    with pytest.raises(InvalidArgument, match=r"no file .*nothing\.csv"):
        parse(tmp_path / "nothing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidArgument, match=r"no file .*folder\.csv"):
        parse(tmp_path / "folder.csv")
