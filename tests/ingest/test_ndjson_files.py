"""NDJSON: columns found over the whole file, nested ones too, and broken lines named."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.running.ingested import parse, write
from tiering.errors import BadRequest, InvalidData


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


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.int64(), "null", "true"),
        (pa.bool_(), "null", "1"),
        (pa.bool_(), "null", "1.5"),
        (pa.float64(), "null", "true"),
        (pa.binary(), '"x"', "5"),
        (pa.binary(), "null", "5.5"),
        (pa.timestamp("us"), "null", "5"),
        (pa.map_(pa.string(), pa.int64()), "null", '{"k": 1}'),
        (pa.struct([("x", pa.int8())]), '{"x": 1}', '{"other": 1}'),
        (pa.struct([("x", pa.int8())]), "null", "[1]"),
        (pa.list_(pa.int8()), "[]", '{"x": 1}'),
        (pa.struct([("b", pa.bool_()), ("d", pa.float64())]), '{"b": null, "d": 1.5}', '{"b": 1, "d": 1.5}'),
        (pa.struct([("b", pa.binary()), ("d", pa.float64())]), '{"b": "x", "d": 1.5}', '{"b": 2.5, "d": 1.5}'),
        (pa.list_(pa.struct([("b", pa.bool_()), ("d", pa.float64())])), '[{"b": true, "d": 1.5}]', '[{"b": 0, "d": 1.5}]'),
    ],
)
def test_a_value_of_another_kind_than_the_tables_is_refused_with_its_line(tmp_path: Path, kind: pa.DataType, good: str, bad: str) -> None:
    lines = f'{{"a": {good}}}\n' * 30 + f'\n{{"a": {bad}}}\n' + f'{{"a": {good}}}\n' * 30
    with pytest.raises(InvalidData, match=r"x\.ndjson, line 32: .*[Cc]olumn.*a"):
        parse(write(tmp_path, "x.ndjson", lines), pa.schema([("a", kind)]))
    assert parse(write(tmp_path, "x.ndjson", lines.replace(bad, good)), pa.schema([("a", kind)])).num_rows == 61


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"b c": 1}', "'b c' is not a valid column name"),
        ('{"__b": 1}', "'__b' starts with '__'"),
        ('{"A": 1}', "'a' and 'A' have the same name"),
        ('{"s": {"x y": 1}}', "'x y' is not a valid field"),
        ('{"s": {}}', "'s' has type struct<>"),
        ('{"a": "x"}', "changed from number to string|column 'a'"),
    ],
)
def test_a_key_that_no_column_can_have_is_refused_with_its_line(tmp_path: Path, bad: str, reason: str) -> None:
    file = write(tmp_path, "x.ndjson", '{"a": 1}\n' * 30 + "\n" + bad + "\n" + '{"a": 2}\n' * 30)
    with pytest.raises(BadRequest, match=rf"x\.ndjson, line 32: .*({reason})"):
        parse(file)


def test_columns_that_the_table_lacks_are_named_by_their_line_and_missing_ones_by_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "x.ndjson", '{"a": 1}\n{"a": 1, "other": 2}\n')
    with pytest.raises(InvalidData, match=r"x\.ndjson, line 2: the table has no column 'other'"):
        parse(file, pa.schema([("a", pa.int64())]))
    with pytest.raises(InvalidData, match=r"x\.ndjson: the column 'z' is missing"):
        parse(file, pa.schema([("a", pa.int64()), ("other", pa.int64()), ("z", pa.int64())]))


@pytest.mark.parametrize("text", ["", "\n", "{}\n{}\n"])
def test_a_file_without_a_column_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidData, match=r"x\.ndjson has no columns"):
        parse(write(tmp_path, "x.ndjson", text))
