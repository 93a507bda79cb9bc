"""CSV: types found over the whole file, and broken rows named by their line."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.running.ingested import parse, write
from tiering.errors import InvalidData, InvalidName
from tiering.ingest.files import read_csv


def test_csv_columns_get_the_narrowest_type_that_all_values_fit(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "x.csv",
        "i,f,d,t,z,b,s,mixed,none,hex\n"
        "1,1,2013-01-01,2013-01-01 10:00:00.5,2013-01-01T10:00:00Z,true,a,1,NA,0x1F\n"
        "-2,2.5,2013-12-31,2013-01-01 10:00:00.25,2013-01-01T08:00:00Z,false,b,x,,0x20\n",
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
@pytest.mark.parametrize(
    ("rows", "line", "fault"),
    [
        ('1,"a\n2,b\n3,c\n', 2, "a quote that is never closed"),
        ("1,a\n" * 50 + '2,"b', 52, "a quote that is never closed"),
        ('1,"two\nlines"\n' * 30 + '2,"b""\n' + "3,c\n" * 50, 62, "a quote that is never closed"),
        ('1,a\n2,5" pipe\n3,"b\n4,c\n', 4, "a quote that is never closed"),
        ('1,"a\n2,"b"\n3,c\n', 2, "text behind a closing quote"),
        ("1,a\n" * 50 + '2,"b"c\n', 52, "text behind a closing quote"),
        ('1,"a\n2,"b', 2, "text behind a closing quote"),
    ],
)
def test_rows_that_a_wrong_quote_would_join_are_refused(tmp_path: Path, rows: str, line: int, fault: str) -> None:
    file = write(tmp_path, "x.csv", "id,name\n" + rows)
    with pytest.raises(InvalidData, match=rf"x\.csv, line {line}: the row that begins here has {fault}"):
        parse(file)


_CELLS = st.sampled_from(["", "a", '"a"', '"', '"a', 'b"', '"a""', '""b"', '"a\nb"', '"a,"', '5" x', '"a"b'])
_LINES = st.tuples(st.lists(_CELLS, min_size=2, max_size=2).map(",".join), st.sampled_from(["\n", "\r\n", "\n\n"])).map("".join)


@pytest.mark.usefixtures("tiny_blocks")
@given(lines=st.lists(_LINES, min_size=1, max_size=8), end=st.sampled_from(["", '1,"', "1,2"]))
@example(lines=['1,"a\n', '2,"b"\n'], end="")
def test_arrow_reads_the_rows_that_python_reads_or_the_file_is_refused(tmp_path: Path, lines: list[str], end: str) -> None:
    content = "one,two\n" + "".join(lines) + end
    try:
        rows = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row][1:]
    except csv.Error:
        rows = []
    try:
        table = parse(write(tmp_path, "x.csv", content), pa.schema([("one", pa.string()), ("two", pa.string())]))
    except InvalidData:
        assert not rows or any(len(row) != 2 for row in rows)
    else:
        assert rows == [[value or "" for value in row.values()] for row in table.to_pylist()]


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
        ("a,b,a\n1,2,3\n", InvalidData, "line 1: the column 'a' is named twice"),
        ("\na b\n1\n", InvalidName, "line 2: 'a b'"),
        ("__offset\n1\n", InvalidName, "line 1: .*__offset"),
        ("a,A\n1,2\n", InvalidName, "line 1: .*same name"),
    ],
)
def test_bad_headers_are_refused(tmp_path: Path, text: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        parse(write(tmp_path, "x.csv", text))


@pytest.mark.parametrize("text", ["a,b\n", "a,b", "\ufeffa,b\r\n", '"a","b"\n', "\n\na,b\n\n\n"])
def test_a_header_alone_tells_no_types(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidData, match=r"x\.csv has no rows, so the types of its columns are unknown") as refused:
        parse(write(tmp_path, "x.csv", text))
    assert "--schema" in refused.value.hint
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert parse(tmp_path / "x.csv", schema).to_pylist() == []


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


@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"]))), min_size=1))
def test_what_pandas_style_quoting_writes_is_read_back(tmp_path: Path, rows: list[tuple[int, str]]) -> None:
    lines = [f'{number},"{text.replace(chr(34), chr(34) * 2)}"' for number, text in rows]
    file = write(tmp_path, "x.csv", "n,t\n" + "\n".join(lines) + "\n")
    schema = pa.schema([("n", pa.int64()), ("t", pa.string())])
    assert parse(file, schema).to_pydict() == {"n": [n for n, _ in rows], "t": [t for _, t in rows]}
