"""A number in a file is stored exactly, or refused with its line; compared with Python's own decimals over each type's whole range."""

from __future__ import annotations

import json
import math
import re
import struct
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from support.running.ingested import parse, write
from tiering.errors import InvalidData

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
DECIMALS = (
    pa.decimal128(38, 10),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
    pa.decimal128(38, 20),
    pa.decimal128(5, 2),
    pa.decimal128(1, 0),
)
FLOATS = (pa.float32(), pa.float64())

_WHOLE = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.sampled_from([2**p + d for p in (7, 15, 24, 31, 53, 63, 64) for d in (-1, 0, 1)]),
)
_DIGITS = st.text("0123456789", min_size=1, max_size=40)
_EXPONENTS = st.one_of(
    st.just(""), st.integers(-420, 420).map(lambda power: f"e{power}"), st.integers(0, 12).map(lambda power: f"E+{power}")
)
NUMBERS = st.one_of(
    _WHOLE.map(str),
    st.tuples(_WHOLE, _DIGITS, _EXPONENTS).map(lambda parts: f"{parts[0]}.{parts[1]}{parts[2]}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:.17g}"),
    st.decimals(allow_nan=False, allow_infinity=False, places=10).map(str),
).filter(lambda text: re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) is not None)


def _file(tmp_path: Path, ending: str, texts: list[str]) -> Path:
    lines = ["a", *texts] if ending == "csv" else [f'{{"a": {text}}}' for text in texts]
    return write(tmp_path, f"x.{ending}", "\n".join(lines) + "\n")


def _nearest(text: str, kind: pa.DataType) -> float:
    """The float of that type nearest to a number, by its exact neighbours."""
    value = float(text)
    if kind == pa.float64() or math.isinf(value):
        return value
    try:
        near = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    bits = struct.unpack("<i", struct.pack("<f", near))[0]
    neighbours = [struct.unpack("<f", struct.pack("<i", bits + step))[0] for step in (-1, 1) if -(2**31) <= bits + step < 2**31]
    finite = [other for other in (near, *neighbours) if math.isfinite(other)]
    return float(min(finite, key=lambda other: (abs(Decimal(other) - Decimal(text)), other != near)))


def _stored(tmp_path: Path, ending: str, text: str, kind: pa.DataType) -> object:
    """The value that a number becomes beside 0.5 or 0, so that a block has fractions or none; None if its line is refused."""
    try:
        rows = parse(_file(tmp_path, ending, [text]), pa.schema([("a", kind)])).to_pylist()
    except InvalidData as refused:
        if re.search(rf"x\.\w+, line {2 if ending == 'csv' else 1}: ", refused.message) is None:
            raise
        return None
    return rows[0]["a"]


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@given(text=NUMBERS, kind=st.sampled_from(INTEGERS + DECIMALS))
@example(text="1234567890123456789012345678.0123456789", kind=pa.decimal128(38, 10))
@example(text="0.00000000001", kind=pa.decimal128(38, 10))
@example(text="9007199254740993.5", kind=pa.int64())
@example(text="9223372036854775808", kind=pa.int64())
@example(text="18446744073709551615", kind=pa.decimal128(38, 0))
@example(text="5", kind=pa.decimal128(38, 20))
@example(text="1e3", kind=pa.int64())
def test_an_integer_or_decimal_column_has_the_files_number_or_refuses_it(tmp_path: Path, ending: str, text: str, kind: pa.DataType) -> None:
    stored = _stored(tmp_path, ending, text, kind)
    if stored is not None:
        assert Decimal(str(stored)) == Decimal(text)
    elif "e" not in text.lower() and "." not in text:
        assert not _fits(Decimal(text), kind), "a whole number that the type holds was refused"


def _fits(value: Decimal, kind: pa.DataType) -> bool:
    if isinstance(kind, pa.Decimal128Type):
        return abs(value) < Decimal(10) ** (kind.precision - kind.scale)
    return bool(-(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1))


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@given(text=NUMBERS, kind=st.sampled_from(FLOATS))
@example(text="1e400", kind=pa.float64())
@example(text="1e-400", kind=pa.float64())
@example(text="1e39", kind=pa.float32())
@example(text="9007199254740993", kind=pa.float64())
@example(text="1152921504606846976", kind=pa.float64())
@example(text="16777217", kind=pa.float32())
def test_a_float_column_has_the_nearest_float_or_refuses_the_number(tmp_path: Path, ending: str, text: str, kind: pa.DataType) -> None:
    nearest = _nearest(text, kind)
    becomes_other = math.isinf(nearest) or (nearest == 0) != (Decimal(text) == 0)
    whole = "." not in text and "e" not in text.lower()
    if becomes_other or (whole and Decimal(nearest) != Decimal(text)):
        assert _stored(tmp_path, ending, text, kind) is None
    else:
        assert _stored(tmp_path, ending, text, kind) == nearest


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@given(texts=st.lists(NUMBERS, min_size=1, max_size=5))
@example(texts=["9223372036854775807", "9223372036854775808", "18446744073709551614", "18446744073709551615"])
@example(texts=["9007199254740993", "0.5"])
@example(texts=["9007199254740993.5", "1"])
@example(texts=["12345678901234567890123456789012345678901"])
@example(texts=["0.1", "1e300", "0.10000000000000001"])
def test_a_column_of_a_new_table_keeps_the_numbers_of_its_file_apart(tmp_path: Path, ending: str, texts: list[str]) -> None:
    try:
        column = parse(_file(tmp_path, ending, texts))["a"]
    except InvalidData as refused:
        if ending != "ndjson" or "too big" not in refused.message:
            raise
        return
    for text, stored in zip(texts, column.to_pylist(), strict=True):
        if isinstance(stored, float):
            assert stored == float(text)
            assert Decimal(stored).quantize(Decimal(text), context=Context(prec=1_000, Emin=-9_999, Emax=9_999)) == Decimal(text)
        else:
            assert Decimal(str(stored)) == Decimal(text)


@pytest.mark.parametrize(
    ("texts", "of_json", "of_csv"),
    [
        (["1", "-2"], pa.int64(), pa.int64()),
        (["9223372036854775807", "-9223372036854775808"], pa.int64(), pa.int64()),
        (["9223372036854775808", "1"], pa.decimal128(38, 0), pa.decimal128(38, 0)),
        (["0.1", "2", "3.0"], pa.float64(), pa.string()),
        (["0.1", "2"], pa.float64(), pa.float64()),
        (["0.1", "2", "1e5"], pa.float64(), pa.string()),
        (["0.1", "0.30000000000000004", "5e-324"], pa.float64(), pa.float64()),
        (["9007199254740993", "0.25"], pa.decimal128(38, 2), pa.string()),
        (["9007199254740993.00", "0.25"], pa.decimal128(38, 2), pa.decimal128(38, 2)),
        (["12.50", "3.99"], pa.float64(), pa.decimal128(38, 2)),
        (["12.50", "3.9"], pa.float64(), pa.string()),
        (["-0", "1"], pa.int64(), pa.float64()),
        (["-0.00", "1.00"], pa.float64(), pa.string()),
        (["1" * 39, "2"], pa.string(), pa.string()),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@pytest.mark.usefixtures("tiny_blocks")
def test_the_type_of_numbers_is_the_narrowest_that_keeps_them(
    tmp_path: Path, ending: str, texts: list[str], of_json: pa.DataType, of_csv: pa.DataType
) -> None:
    column = parse(_file(tmp_path, ending, texts * 20))["a"]
    assert column.type == (of_csv if ending == "csv" else of_json)
    assert [Decimal(str(value)) for value in column.to_pylist()] == [Decimal(text) for text in texts * 20]


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@pytest.mark.parametrize("text", ["1e9999999999999999999999", "-1.5E-9999999999999999999999"])
def test_an_exponent_beyond_all_number_types_is_kept_as_text(tmp_path: Path, ending: str, text: str) -> None:
    texts = [text, "2", "0.25"]
    try:
        column = parse(_file(tmp_path, ending, texts))["a"]
    except InvalidData as refused:
        if re.search(r"x\.ndjson, line 1: .*too big", refused.message) is None:
            raise
        return
    assert column.to_pylist() == texts


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@pytest.mark.parametrize("text", ["1" * 300, "-" + "9" * 300 + ".5", "1" * 5_000])
def test_a_number_of_thousands_of_digits_is_kept_as_text(tmp_path: Path, ending: str, text: str) -> None:
    try:
        column = parse(_file(tmp_path, ending, [text, "2"]))["a"]
    except InvalidData as refused:
        if re.search(r"x\.ndjson, line 1: .*too big", refused.message) is None:
            raise
        return
    assert column.to_pylist() == [text, "2"]


def test_a_whole_number_with_thousands_of_zeros_before_it_is_a_whole_number_where_the_table_says_so(tmp_path: Path) -> None:
    text = "0" * 5_000 + "9223372036854775807"
    assert parse(_file(tmp_path, "csv", [text]), pa.schema([("a", pa.int64())]))["a"].to_pylist() == [2**63 - 1]
    assert parse(tmp_path / "x.csv")["a"].to_pylist() == [text]


def test_numbers_within_lists_and_objects_are_as_exact_as_columns(tmp_path: Path) -> None:
    big, small = 18446744073709551615, 0.5
    lines = [
        json.dumps({"l": [big], "s": {"n": 1, "t": 'a "1.5" \\'}, "e": [[]]}),
        json.dumps({"l": [1, big - 1], "s": {"n": small}, "e": [[7]]}),
    ]
    table = parse(write(tmp_path, "x.ndjson", "\n".join(lines)))
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {
        "l": pa.list_(pa.decimal128(38, 0)),
        "s": pa.struct([("n", pa.float64()), ("t", pa.string())]),
        "e": pa.list_(pa.list_(pa.int64())),
    }
    assert table.to_pylist() == [
        {"l": [Decimal(big)], "s": {"n": 1.0, "t": 'a "1.5" \\'}, "e": [[]]},
        {"l": [Decimal(1), Decimal(big - 1)], "s": {"n": 0.5, "t": None}, "e": [[7]]},
    ]


@pytest.mark.parametrize("text", ["0.00000000001", "1e30", "1e-400"])
def test_a_nested_number_that_does_not_fit_the_table_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    kind = pa.struct([("d", pa.list_(pa.decimal128(38, 10)))])
    with pytest.raises(InvalidData, match=r"x\.ndjson, line 2: column 'a'"):
        parse(write(tmp_path, "x.ndjson", f'{{"a": {{"d": [1.5]}}}}\n{{"a": {{"d": [{text}]}}}}\n'), pa.schema([("a", kind)]))


@pytest.mark.parametrize(
    ("line", "kind"),
    [("true", pa.int64()), ("true", pa.float64()), ("5", pa.bool_()), ("1.5", pa.bool_()), ("5", pa.timestamp("us")), ("5", pa.date32())],
)
def test_truth_values_numbers_and_times_do_not_stand_for_each_other(tmp_path: Path, line: str, kind: pa.DataType) -> None:
    with pytest.raises(InvalidData, match="column 'a'"):
        parse(write(tmp_path, "x.ndjson", f'{{"a": {line}}}\n'), pa.schema([("a", kind)]))


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("others", [[], ["7"], ["0.5"]])
@pytest.mark.parametrize("text", ["-0", "-0.0", "-0e5"])
def test_a_negative_zero_keeps_its_sign(tmp_path: Path, ending: str, kind: pa.DataType, others: list[str], text: str) -> None:
    values = parse(_file(tmp_path, ending, [text, *others]), pa.schema([("a", kind)]))["a"].to_pylist()
    assert (values[0], math.copysign(1, values[0])) == (0, -1)


def test_a_negative_zero_within_lists_and_objects_keeps_its_sign(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("d", pa.float64())]))
    stored = parse(write(tmp_path, "x.ndjson", '{"a": [{"d": -0}]}\n'), pa.schema([("a", kind)]))["a"].to_pylist()
    assert math.copysign(1, stored[0][0]["d"]) == -1


def test_a_json_number_in_a_text_column_keeps_its_characters(tmp_path: Path) -> None:
    file = write(tmp_path, "x.ndjson", '{"a": 1.50}\n{"a": 123456789012345678901234567890}\n{"a": 7}\n')
    assert parse(file, pa.schema([("a", pa.string())]))["a"].to_pylist() == ["1.50", "123456789012345678901234567890", "7"]


@pytest.mark.parametrize(("text", "kind"), [("0xFFFFFFFFFFFFFFFF", pa.int64()), ("0xFF", pa.int8())])
def test_hexadecimal_digits_are_no_negative_number(tmp_path: Path, text: str, kind: pa.DataType) -> None:
    with pytest.raises(InvalidData, match="line 2: column 'a'"):
        parse(write(tmp_path, "x.csv", f"a\n{text}\n"), pa.schema([("a", kind)]))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([0.1, 1.005, None]), pa.decimal128(10, 3)),
        (pa.array([2**60]), pa.float64()),
        (pa.array([Decimal("1.005")]), pa.float64()),
        (pa.array([5]), pa.decimal128(38, 20)),
        (pa.array([[(1, 1.5)], None, [], [(2, None)]], pa.map_(pa.int64(), pa.float64())), pa.map_(pa.int64(), pa.decimal128(5, 1))),
        (pa.array([[1.5], None, [], [None, 2.25]]), pa.list_(pa.decimal128(5, 2))),
        (pa.array([{"f": 1.5}, None, {"f": None}]), pa.struct([("f", pa.decimal128(5, 2))])),
    ],
)
def test_parquet_numbers_are_exact_in_the_columns_type(tmp_path: Path, column: pa.Array[Any], kind: pa.DataType) -> None:
    parquet.write_table(pa.table({"a": column}), tmp_path / "x.parquet")
    stored = parse(tmp_path / "x.parquet", pa.schema([("a", kind)]))["a"]
    assert [_plain(value) for value in stored.to_pylist()] == [_plain(value) for value in column.to_pylist()]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1e300]), pa.float32()),
        (pa.array([1e-300]), pa.float32()),
        (pa.array([True]), pa.int64()),
        (pa.array([2**60 + 1]), pa.float64()),
        (pa.array([Decimal("1.005")]), pa.decimal128(10, 2)),
        (pa.array([Decimal(140)]), pa.decimal128(38, 38)),
        (pa.array([5], pa.int64()), pa.timestamp("us")),
        (pa.array([{"f": 1e300}]), pa.struct([("f", pa.float32())])),
        (pa.array([[(1, 1e300)]], pa.map_(pa.int64(), pa.float64())), pa.map_(pa.int64(), pa.float32())),
        (pa.array([86_400_000_001], pa.timestamp("us")), pa.date32()),
    ],
)
def test_parquet_values_that_the_column_cannot_hold_are_refused(tmp_path: Path, column: pa.Array[Any], kind: pa.DataType) -> None:
    parquet.write_table(pa.table({"a": column}), tmp_path / "x.parquet")
    with pytest.raises(InvalidData, match=r"x\.parquet.*: column 'a"):
        parse(tmp_path / "x.parquet", pa.schema([("a", kind)]))


def _plain(value: object) -> object:
    """A value in which a number is what it prints."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return Decimal(value)
    return Decimal(str(value)) if isinstance(value, float | int | Decimal) else repr(value)


def test_a_blank_line_of_a_file_of_one_column_is_a_row_with_null(tmp_path: Path) -> None:
    assert parse(write(tmp_path, "x.csv", "\na\n1\n\n2\n\n"))["a"].to_pylist() == [1, None, 2, None]
    with pytest.raises(InvalidData, match="line 4: column 'a': 'x' is not a valid int64"):
        parse(write(tmp_path, "x.csv", "a\n1\n\nx\n"), pa.schema([("a", pa.int64())]))


@pytest.mark.parametrize("text", ["NA", "", "NULL", "null", "N/A"])
def test_a_quoted_text_is_never_null_in_a_column_of_numbers_either(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, "x.csv", f'a,b\n1,2\n"{text}",3\n')
    assert parse(file)["a"].to_pylist() == ["1", text]
    with pytest.raises(InvalidData, match=rf"line 3: column 'a': '{text}' is not a valid int64"):
        parse(file, pa.schema([("a", pa.int64()), ("b", pa.int64())]))


@pytest.mark.parametrize("text", [" NA ", '" NA "', '" "', " ", '"\tnull"'])
def test_a_null_text_between_spaces_is_null_in_a_column_of_numbers_quoted_or_not_and_text_in_others(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, "x.csv", f"a,b,c\n1,{text},{text}\n2,3,x\n")
    table = parse(file)
    assert (table["b"].to_pylist(), table["c"].to_pylist()) == ([None, 3], [text.strip('"'), "x"])
