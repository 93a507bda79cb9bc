"""Files as spreadsheets, pandas and databases write them: nothing of them changes, and each refusal names a way round."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from support.running.ingested import parse, parse_all, write
from tiering.errors import InvalidArgument, InvalidData, InvalidName, LakewardError
from tiering.ingest.files import Shape, parsed_files
from tiering.ingest.formats import FileFormat, Reading, read_delimiter


def types_of(table: pa.Table) -> dict[str, pa.DataType]:
    return dict(zip(table.column_names, table.schema.types, strict=True))


# numbers that are none


@pytest.mark.parametrize(
    "text",
    ["00501", "+4712345", "1e5", "12E4", "1E7", ".5", "5.", "1.500e1", "007.5", "-00", "+0.5", "1_000", "1,5", "0x1F", "1" * 39, "INF"],
)
@pytest.mark.parametrize("other", ["17", "0.25"])
def test_text_that_no_number_type_prints_back_stays_text(tmp_path: Path, text: str, other: str) -> None:
    file = write(tmp_path, "x.csv", f'a,b\n{other},1\n"{text}",2\n{other},3\n')
    assert parse(file)["a"].to_pylist() == [other, text, other]
    assert parse(write(tmp_path, "y.csv", f'a,b\n"{text}",2\n'))["a"].to_pylist() == [text]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1.50", "-2.25", "0.00"], [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]),
        (["99999999999999999999", "7"], [Decimal("99999999999999999999"), Decimal(7)]),
        (["1.5", "2.0", "-0.0"], [1.5, 2.0, -0.0]),
        (["1.5", "2", "3.0"], ["1.5", "2", "3.0"]),
        (["1e-07", "1e+16", "1.5e+300"], [1e-7, 1e16, 1.5e300]),
        (["1e-7", "1e+21"], [1e-7, 1e21]),
        (["1.0E7", "1.2345E-4", "1.0E16", "0.5"], [1e7, 1.2345e-4, 1e16, 0.5]),
        (["0.30000000000000004", "inf", "-inf"], [0.30000000000000004, float("inf"), float("-inf")]),
        (["1.50", "2.5"], ["1.50", "2.5"]),
        (["12", "1.50"], ["12", "1.50"]),
        (["0.10000000000000001"], [Decimal("0.10000000000000001")]),
        (["0.10000000000000001", "0.5"], ["0.10000000000000001", "0.5"]),
    ],
)
@pytest.mark.usefixtures("tiny_blocks")
def test_numbers_are_numbers_if_they_print_back(tmp_path: Path, texts: list[str], values: list[Any]) -> None:
    column = parse(write(tmp_path, "x.csv", "a\n" + "\n".join(texts * 30) + "\n"))["a"]
    assert column.to_pylist() == values * 30


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["true", "false"], pa.bool_()),
        (["True", "False"], pa.bool_()),
        (["TRUE", "TRUE"], pa.bool_()),
        (["true", "TRUE"], pa.string()),
        (["true", "1"], pa.string()),
        (["tRUE"], pa.string()),
        (["0", "1"], pa.int64()),
    ],
)
def test_truth_values_have_one_spelling(tmp_path: Path, texts: list[str], kind: pa.DataType) -> None:
    assert parse(write(tmp_path, "x.csv", "a\n" + "\n".join(texts) + "\n"))["a"].type == kind


# types that the user names


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_types_that_are_named_decide(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"x.{ending}"
    if ending == "csv":
        file.write_text("id,zip,n\n1,501,2\n")
    elif ending == "ndjson":
        file.write_text('{"id": 1, "zip": 501, "n": 2}\n')
    else:
        pq.write_table(pa.table({"id": [1], "zip": [501], "n": [2]}), file)
    table = parse_all([file], Shape(types={"zip": pa.string(), "n": pa.decimal128(10, 2)}))
    assert types_of(table) == {"id": pa.int64(), "zip": pa.string(), "n": pa.decimal128(10, 2)}
    assert table.to_pylist() == [{"id": 1, "zip": "501", "n": Decimal("2.00")}]
    with pytest.raises(InvalidData, match=rf"x\.{ending}.*: the column 'zop', whose type is given, is missing"):
        parse_all([file], Shape(types={"zop": pa.string()}))


def test_a_value_that_does_not_fit_the_type_that_is_named_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", "id,zip\n1,501\n2,x\n")
    with pytest.raises(InvalidData, match=r"x\.csv, line 3: column 'zip': 'x' is not a valid int64"):
        parse_all([file], Shape(types={"zip": pa.int64()}))


# names


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_columns_get_other_names(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"x.{ending}"
    if ending == "csv":
        file.write_text('Order ID,"Ship\nDate",c\n1,2024-01-31,x\n')
    elif ending == "ndjson":
        file.write_text('{"Order ID": 1.5, "Ship\\nDate": "2024-01-31", "c": "x"}\n')
    else:
        pq.write_table(pa.table({"Order ID": [1], "Ship\nDate": ["2024-01-31"], "c": ["x"]}), file)
    with pytest.raises(InvalidName, match=rf"x\.{ending}.*'Order ID' is not a valid column name") as refused:
        parse(file)
    assert "--rename 'Order ID=Order_ID' --rename 'Ship\nDate=Ship_Date'" in refused.value.hint
    new = {"Order ID": "order_id", "Ship\nDate": "c", "c": "d"}
    table = parse(file, reading=Reading(rename=new))
    assert table.column_names == ["order_id", "c", "d"]
    assert table["d"].to_pylist() == ["x"]
    with pytest.raises(LakewardError, match="'c'"):
        parse(file, reading=Reading(rename={"Order ID": "c", "Ship\nDate": "s"}))
    with pytest.raises(InvalidArgument, match=r"--rename 'order': .* has no such column"):
        parse(file, reading=Reading(rename={"order": "z"}))


def test_a_key_that_gets_the_name_of_a_later_key_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "x.ndjson", '{"A B": 1}\n{"b": 2}\n')
    with pytest.raises(InvalidData, match=r"x\.ndjson, line 2: there is a key 'b', but --rename gives 'A B' the same name"):
        parse(file, reading=Reading(rename={"A B": "b"}))


def test_renamed_keys_of_a_table_that_exists_keep_their_digits_and_order(tmp_path: Path) -> None:
    file = write(tmp_path, "x.ndjson", '{"A B": {"y": 1.50, "x": 2}, "n": 0.1}\n')
    schema = pa.schema([("n", pa.decimal128(5, 2)), ("ab", pa.struct([("x", pa.int8()), ("y", pa.string())]))])
    assert parse(file, schema, reading=Reading(rename={"A B": "ab"})).to_pylist() == [{"n": Decimal("0.10"), "ab": {"x": 2, "y": "1.50"}}]


# headers


@pytest.mark.parametrize("text", ["1,Oslo\n2,Lima\n", "Oslo,2024-01-31\n", "x,1.5\n", "1;Oslo\n"])
def test_a_first_line_of_values_is_no_header(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, "x.csv", text)
    with pytest.raises(InvalidData, match=r"x\.csv, line 1: .* looks like a value, not like a column name") as refused:
        parse(file)
    assert "--no-header" in refused.value.hint
    assert "--header" in refused.value.hint


def test_a_file_without_a_header_has_the_columns_that_are_named(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", "\n00501;2,5\n10001;3\n")
    with pytest.raises(InvalidArgument, match="with --no-header, the names of the columns are not known"):
        parse(file, reading=Reading(has_header=False))
    schema = pa.schema([("zip", pa.string()), ("price", pa.string())])
    assert parse(file, schema, reading=Reading(has_header=False))["zip"].to_pylist() == ["00501", "10001"]
    numbers = pa.schema([("zip", pa.string()), ("price", pa.int64())])
    with pytest.raises(InvalidData, match=r"x\.csv, line 2: column 'price': '2,5' is not a valid int64"):
        parse(file, numbers, reading=Reading(has_header=False))
    with pytest.raises(InvalidData, match=r"x\.csv, line 2: 2 columns where there should be 1"):
        parse(file, pa.schema([("zip", pa.string())]), reading=Reading(has_header=False, delimiter=";"))


def test_years_are_names_of_columns_if_the_user_or_the_table_says_so(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", "country,2023,2024\nno,1,2\n")
    assert parse(file, reading=Reading(has_header=True)).column_names == ["country", "2023", "2024"]
    table = pa.schema([("country", pa.string()), ("2023", pa.int64()), ("2024", pa.int64())])
    assert parse(file, table).num_rows == 1


def test_the_index_that_pandas_writes_gets_a_name(tmp_path: Path) -> None:
    pd.DataFrame({"city": ["Oslo"]}).to_csv(tmp_path / "x.csv")
    with pytest.raises(InvalidData, match="line 1: column 1 has no name") as refused:
        parse(tmp_path / "x.csv")
    assert "--rename '=NAME'" in refused.value.hint
    assert parse(tmp_path / "x.csv", reading=Reading(rename={"": "row"})).to_pylist() == [{"row": 0, "city": "Oslo"}]


def test_spaces_around_the_names_of_columns_are_none_of_them(tmp_path: Path) -> None:
    assert parse(write(tmp_path, "x.csv", "id, city\n1, Oslo\n")).to_pylist() == [{"id": 1, "city": " Oslo"}]


# delimiters


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
@pytest.mark.usefixtures("tiny_blocks")
def test_the_delimiter_is_found_in_the_first_line(tmp_path: Path, delimiter: str) -> None:
    file = write(tmp_path, "x.csv", f"id{delimiter}text\n" + f'1{delimiter}"x{delimiter}\n"\n' * 40)
    with parsed_files([str(file)]) as parsed:
        assert parsed.read_as == ([] if delimiter == "," else [f"the delimiter {delimiter!r}"])
        assert next(iter(parsed.batches())).to_pylist()[0] == {"id": 1, "text": f"x{delimiter}\n"}
        assert parsed.rows == 40


def test_the_delimiter_that_is_named_decides(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", "a;b#c\n1;2#3\n")
    table = parse(file, reading=Reading(delimiter="#", rename={"a;b": "ab"}))
    assert table.to_pylist() == [{"ab": "1;2", "c": 3}]
    assert [read_delimiter(word) for word in ("tab", r"\t", "\t", ";")] == ["\t", "\t", "\t", ";"]
    for word in ("", "ab", '"', "\n", "é"):
        with pytest.raises(InvalidArgument, match="is not one ASCII character"):
            read_delimiter(word)


def test_a_row_with_another_number_of_columns_is_refused_with_the_delimiter(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"x\.csv, line 3: 3 columns where the header has 2") as refused:
        parse(write(tmp_path, "x.csv", "a;b\n1;2\n1;2;3\n"))
    assert "The delimiter is ';'" in refused.value.hint


# nulls


def test_texts_that_are_null_can_be_named(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", 'country,n,note\nNA,-,\nNO, - ,"-"\nSE,3,-\n')
    named = parse(file, reading=Reading(null=("-",)))
    assert types_of(named) == {"country": pa.string(), "n": pa.int64(), "note": pa.string()}
    assert named.to_pydict() == {"country": ["NA", "NO", "SE"], "n": [None, None, 3], "note": ["", "-", None]}
    table = pa.schema([("country", pa.string()), ("n", pa.int8()), ("note", pa.string())])
    assert parse(file, table, reading=Reading(null=("-", "")))["n"].to_pylist() == [None, None, 3]
    assert parse(file)["country"].to_pylist() == [None, "NO", "SE"]
    with pytest.raises(InvalidData, match=r"y\.csv, line 3: column 'n': 'NA' is not a valid int8"):
        parse(write(tmp_path, "y.csv", "n\n1\nNA\n"), pa.schema([("n", pa.int8())]), reading=Reading(null=("",)))
    with pytest.raises(InvalidArgument, match="--null has no meaning"):
        parse(write(tmp_path, "x.ndjson", "{}"), reading=Reading(null=("-",)))


# encodings


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, encoding: str, ending: str) -> None:
    text = 'id,city\n1,"Tromsø, 東"\n' if ending == "csv" else '{"id": 1, "city": "Tromsø, 東"}\n'
    file = write(tmp_path, f"x.{ending}", text.encode(encoding))
    with parsed_files([str(file)]) as parsed:
        assert next(iter(parsed.batches())).to_pylist() == [{"id": 1, "city": "Tromsø, 東"}]
        assert parsed.read_as == ([] if encoding == "utf-8-sig" else [f"the encoding {encoding}"])


@pytest.mark.parametrize(("encoding", "text"), [("latin-1", "grün"), ("cp1252", "5 €"), ("utf-16-be", "東"), ("UTF8", "ø")])
def test_the_encoding_that_is_named_decides(tmp_path: Path, encoding: str, text: str) -> None:
    file = write(tmp_path, "x.csv", f"t,n\n{text},1\n".encode(encoding))
    assert parse(file, reading=Reading(encoding=encoding))["t"].to_pylist() == [text]


def test_bytes_that_the_encoding_lacks_are_named_by_their_line(tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", b"a,b\n" + b"1,x\r\n" * 250_000 + b"2,\x81\n")
    with pytest.raises(InvalidData, match=r"x\.csv, line 250002: the text is not cp1252"):
        parse(file, reading=Reading(encoding="cp1252"))
    cut = write(tmp_path, "y.csv", "a\n東\n".encode("utf-16")[:-3])
    with pytest.raises(InvalidData, match=r"y\.csv, line 2: the text is not utf-16"):
        parse(cut)
    for encoding in ("latin-15x", "base64", "a\0b"):
        with pytest.raises(InvalidArgument, match="there is no encoding"):
            parse(file, reading=Reading(encoding=encoding))


# compression, standard input, pipes


def compressed(content: bytes, ending: str) -> bytes:
    return gzip.compress(content) if ending == "gz" else zstandard.ZstdCompressor().compress(content)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed_files_are_read(tmp_path: Path, ending: str) -> None:
    content = b"a\n" + b"1\n" * 3_000
    file = write(tmp_path, f"x.csv.{ending}", compressed(content, ending) + compressed(b"2\n", ending))
    assert parse(file)["a"].to_pylist() == [1] * 3_000 + [2]
    lines = write(tmp_path, f"x.ndjson.{ending}", compressed('{"a": "ø"}\n'.encode("utf-16"), ending))
    assert parse(lines).to_pylist() == [{"a": "ø"}]
    assert parse(write(tmp_path, "named-wrongly.csv", compressed(b"a,b\n1,2\n", ending))).to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_damaged_compressed_file_is_named_and_an_error_names_its_line(tmp_path: Path, ending: str) -> None:
    whole = compressed(b"a,b\n" + os.urandom(300_000).hex().encode() + b",x\n", ending)
    for content in (whole[:-100], whole[:5], whole[:1000] + b"\0" * 500 + whole[1500:]):
        with pytest.raises(LakewardError, match=rf"x\.csv\.{ending}"):
            parse(write(tmp_path, f"x.csv.{ending}", content))
    with pytest.raises(InvalidData, match=rf"y\.csv\.{ending}, line 3: 1 columns where the header has 2"):
        parse(write(tmp_path, f"y.csv.{ending}", compressed(b"a,b\n1,2\n3\n", ending)))


def test_the_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stdin(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))  # type: ignore[arg-type]

    stdin(b"a,b\n1,2\n")
    with pytest.raises(InvalidArgument, match="the standard input has no name that shows its format") as refused:
        parse_all(["-"])
    assert "--file-format" in refused.value.hint
    assert parse_all(["-"], reading=Reading(FileFormat.CSV)).to_pylist() == [{"a": 1, "b": 2}]
    stdin(gzip.compress(b"a,b\n1\n"))
    with pytest.raises(InvalidData, match="standard input, line 2: 1 columns"):
        parse_all(["-"], reading=Reading(FileFormat.CSV))
    with pytest.raises(InvalidArgument, match="given twice"):
        parse_all(["-", "-"], reading=Reading(FileFormat.CSV))
    content = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), content)
    stdin(content.getvalue())
    assert parse_all(["-"], reading=Reading(FileFormat.PARQUET)).to_pylist() == [{"a": 1}]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "x.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b'a,b\n1,"x"\n',))
    writer.start()
    assert parse(pipe).to_pylist() == [{"a": 1, "b": "x"}]
    writer.join()


# several files


@pytest.mark.usefixtures("tiny_blocks")
def test_types_are_found_over_all_files_and_errors_name_the_file(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", "id,zip\n" + "1,501\n" * 50)
    write(tmp_path, "2.csv", "zip;id\n00501;2\n")
    table = parse_all([f"{tmp_path}/*.csv"])
    assert types_of(table) == {"id": pa.int64(), "zip": pa.string()}
    assert table.num_rows == 51
    assert table.to_pylist()[-1] == {"id": 2, "zip": "00501"}
    write(tmp_path, "2.csv", "id,zip\n2,501\nx,501\n")
    write(tmp_path, "3.csv", "id,zip\n2,501\n")
    schema = pa.schema([("id", pa.int64()), ("zip", pa.string())])
    with pytest.raises(InvalidData, match=r"2\.csv, line 3: column 'id': 'x' is not a valid int64"):
        parse_all([f"{tmp_path}/*.csv"], Shape(schema))
    with pytest.raises(InvalidData, match=r"2\.csv, line 3: column 'id': 'x' is not a valid int64"):
        parse_all([f"{tmp_path}/*.csv"], Shape(types={"id": pa.int64()}))


def test_files_must_have_the_same_columns_and_one_format(tmp_path: Path) -> None:
    first, second = write(tmp_path, "1.csv", "id,zip\n1,2\n"), write(tmp_path, "2.csv", "id,zap\n1,2\n")
    with pytest.raises(InvalidData, match=r"2\.csv: the column 'zip' is missing, which .*1\.csv has"):
        parse_all([first, second])
    with pytest.raises(InvalidData, match=r"2\.csv: .*1\.csv has no column 'more'"):
        parse_all([first, write(tmp_path, "2.csv", "id,zip,more\n1,2,3\n")])
    with pytest.raises(InvalidArgument, match="the files have different formats"):
        parse_all([first, write(tmp_path, "3.ndjson", "{}")])
    with pytest.raises(InvalidArgument, match=r"no file matches .*\.txt"):
        parse_all([f"{tmp_path}/*.txt"])
    with pytest.raises(InvalidArgument, match="--delimiter has no meaning"):
        parse_all([tmp_path / "3.ndjson"], reading=Reading(delimiter=";"))


@pytest.mark.usefixtures("tiny_blocks")
def test_keys_and_their_types_are_found_over_all_ndjson_files(tmp_path: Path) -> None:
    first = write(tmp_path, "1.ndjson", '{"a": 1}\n' * 30)
    second = write(tmp_path, "2.ndjson", b'\xef\xbb\xbf{"a": 1.5, "s": {"k": 1}}\n\n{"a": 2}')
    table = parse_all([first, second])
    assert types_of(table) == {"a": pa.float64(), "s": pa.struct([("k", pa.int64())])}
    assert table.to_pylist()[-2:] == [{"a": 1.5, "s": {"k": 1}}, {"a": 2.0, "s": None}]
    with pytest.raises(InvalidData, match=r"2\.ndjson, line 1: column 'a': '1.5' is not a valid int64"):
        parse_all([first, second], Shape(types={"a": pa.int64()}))
    with pytest.raises(InvalidData, match=r"3\.ndjson, line 2: "):
        parse_all([first, write(tmp_path, "3.ndjson", '{"a": 2}\n{"a": "x"}\n')])


def test_parquet_files_with_types_of_several_widths_are_read(tmp_path: Path) -> None:
    columns: list[dict[str, pa.Array[Any]]] = [
        {"n": pa.array([1], pa.int32()), "none": pa.nulls(1), "at": pa.array([datetime(2024, 1, 1)], pa.timestamp("ns"))},
        {"none": pa.array(["x"]), "at": pa.array([datetime(2024, 1, 2)], pa.timestamp("ms")), "n": pa.array([2**40])},
    ]
    files = [tmp_path / f"{number}.parquet" for number in range(2)]
    for file, arrays in zip(files, columns, strict=True):
        pq.write_table(pa.table(arrays), file)
    table = parse_all(files)
    assert types_of(table) == {"n": pa.int64(), "none": pa.string(), "at": pa.timestamp("us")}
    assert table.to_pylist()[1] == {"n": 2**40, "none": "x", "at": datetime(2024, 1, 2)}
    pq.write_table(pa.table({"n": ["x"], "none": ["y"], "at": ["z"]}), files[1])
    with pytest.raises(InvalidData, match=r"1\.parquet: column 'n' is string, but int32 in the files before"):
        parse_all(files)


# pandas


def test_a_frame_of_pandas_is_read(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "small": pd.array([1, 255], "uint8"),
            "large": pd.array([1, 2**64 - 1], "uint64"),
            "none": [None, None],
            "at": pd.to_datetime(["2024-01-01", "2024-01-02 10:00:00.123456"], format="ISO8601"),
            "instant": pd.to_datetime(["2024-01-01", "2024-01-02"], utc=True),
            "half": pd.Series([0.5, 1.0], dtype="float16"),
            "kind": pd.Categorical(["a", "b"]),
            "counts": [[pd.NA, 1], [2]],
        }
    )
    frame["at"] = frame["at"].astype("datetime64[ns]")
    file = tmp_path / "x.parquet"
    arrow = pa.Table.from_pandas(frame.drop(columns="counts"))
    arrow = arrow.append_column("counts", pa.array([[None, 1], [2]], pa.list_(pa.uint16())))
    pq.write_table(arrow, file)
    assert pq.read_schema(file).field("at").type == pa.timestamp("ns")
    table = parse(file)
    assert types_of(table) == {
        "small": pa.int16(),
        "large": pa.decimal128(20, 0),
        "none": pa.string(),
        "at": pa.timestamp("us"),
        "instant": pa.timestamp("us", "UTC"),
        "half": pa.float32(),
        "kind": pa.string(),
        "counts": pa.list_(pa.int32()),
    }
    assert table.to_pylist()[1] == {
        "small": 255,
        "large": Decimal(2**64 - 1),
        "none": None,
        "at": datetime(2024, 1, 2, 10, 0, 0, 123_456),
        "instant": datetime(2024, 1, 2, tzinfo=UTC),
        "half": 1.0,
        "kind": "b",
        "counts": [2],
    }


def test_nanoseconds_that_microseconds_lack_are_refused_or_kept_as_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([1_000, 1_001], pa.timestamp("ns"))}), tmp_path / "x.parquet")
    with pytest.raises(
        InvalidData, match=r"x\.parquet, row 2: column 'at': '1970-01-01 00:00:00.000001001' is not a valid timestamp\[us\]"
    ):
        parse(tmp_path / "x.parquet")
    table = parse_all([tmp_path / "x.parquet"], Shape(types={"at": pa.string()}))
    assert table["at"].to_pylist() == ["1970-01-01 00:00:00.000001000", "1970-01-01 00:00:00.000001001"]


def test_a_json_array_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"x\.json, line 1") as refused:
        parse(write(tmp_path, "x.json", '[{"a": 1},\n{"a": 2}]\n'))
    assert "jq -c" in refused.value.hint
