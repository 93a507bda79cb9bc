"""A column of a CSV file gets a type only if one program prints each of its values as the file has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.running.ingested import parse, write
from tiering.ingest.files import parsed_files


def _javascript(value: float) -> str:
    if not np.isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return np.format_float_positional(abs(value) if value == 0 else value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1)


def _java(value: float) -> str:
    if not np.isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, trim="0") if np.isfinite(value) else _javascript(value)
    return np.format_float_scientific(value, trim="0", exp_digits=1).replace("e+", "E").replace("e", "E")


PRINTERS: Sequence[Callable[[float], str]] = (repr, lambda value: repr(value).removesuffix(".0"), _javascript, _java)
TRUTH = [("false", "true"), ("False", "True"), ("FALSE", "TRUE")]


def _times(value: datetime, zone: str) -> set[tuple[str, str, str]]:
    """How programs print a time: the name of a form, and the text."""
    offset = re.fullmatch(r"([+-])([0-9]{2}):?([0-9]{2})?", zone)
    if offset is not None:
        away = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)) * (1 if offset[1] == "+" else -1)
        value = value.astimezone(timezone(away))
    day, micros = f"{value.year:04}-{value:%m-%d}", f"{value.microsecond:06}"
    fractions = {f"{digits} digits": f".{micros[:digits]}" for digits in range(1, 7) if not micros[digits:].strip("0")}
    fractions |= {"trimmed": f".{micros}".rstrip("0").rstrip("."), "isoformat": f".{micros}" if value.microsecond else ""}
    if not value.microsecond:
        fractions["none"] = ""
    forms = {("day", "", day)} if value.strftime("%H%M%S%f").strip("0") == "" else set()
    for separator in " T":
        forms |= {("hours", separator, f"{day}{separator}{value:%H}{zone}"), ("minutes", separator, f"{day}{separator}{value:%H:%M}{zone}")}
        forms |= {(f"seconds {name}", separator, f"{day}{separator}{value:%H:%M:%S}{text}{zone}") for name, text in fractions.items()}
    return forms


def _prints_back(texts: Sequence[str], column: pa.ChunkedArray[Any]) -> bool:
    """Whether one program prints the values as the texts of the file."""
    kind, values = column.type, column.to_pylist()
    if pa.types.is_floating(kind):
        return any([printer(value) for value in values] == list(texts) for printer in PRINTERS)
    if pa.types.is_boolean(kind):
        return any([words[value] for value in values] == list(texts) for words in TRUTH)
    if pa.types.is_timestamp(kind):
        zone = re.search(r"(Z|[+-][0-9:]{2,5})$", texts[0]) if kind.tz else None
        forms = [
            {(name, separator) for name, separator, printed in _times(value, zone[0] if zone else "") if printed == text}
            for text, value in zip(texts, values, strict=True)
        ]
        return bool(set.intersection(*forms))
    return [f"{value:f}" if isinstance(value, Decimal) else str(value) for value in values] == list(texts)


_NUMBERS = st.one_of(st.integers(-(10**40), 10**40), st.integers(-300, 300)).map(str)
_DOUBLES = st.one_of(
    st.floats(), st.floats(-1e8, 1e8), st.integers(-20, 20).map(float), st.floats(-2, 2).map(lambda value: round(value, 3))
)
_MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)) | st.sampled_from(
    [datetime(2024, 1, 31), datetime(2024, 1, 31, 10), datetime(2024, 1, 31, 10, 0, 0, 500_000)]
)
_ODD = st.sampled_from(
    ["+5", "007", "-0", "-0.0", "1e5", "1E7", "1.50", "2.5", ".5", "5.", "yes", "TRUE", "True", "true", "2024-01-31", "2024-01-31 10:00"]
)


@st.composite
def columns(draw: st.DrawFn) -> list[str]:
    """Texts that one program printed, at times with a text of another."""
    zone = draw(st.sampled_from(["", "Z", "+02:00", "-0330", "+01"]))
    form = draw(st.sampled_from([name[:2] for name in sorted(_times(datetime(2024, 1, 31, 0, 0, tzinfo=UTC), zone))]))

    def time_text(value: datetime) -> str:
        aware = value.replace(tzinfo=UTC) if zone else value
        return next((text for *name, text in sorted(_times(aware, zone)) if (*name,) == form), "2024-01-31T10:00:00")

    scale = draw(st.integers(0, 4))
    values = draw(
        st.sampled_from(
            [
                _NUMBERS,
                st.decimals(-(10**6), 10**6, places=scale).map(str),
                _DOUBLES.map(draw(st.sampled_from(PRINTERS))),
                st.booleans().map(draw(st.sampled_from(TRUTH)).__getitem__),
                st.dates().map(str),
                _MOMENTS.map(time_text),
                st.text("0123456789.-+eE", min_size=1, max_size=8),
            ]
        )
    )
    return draw(st.lists(values, min_size=1, max_size=6)) + draw(st.lists(_ODD | values, max_size=2))


@given(texts=columns())
@example(texts=["1.5", "2", "3.0"])
@example(texts=["2", "0.5", "1e-7"])
@example(texts=["1.0E7", "12345678.5"])
@example(texts=["0.0000005", "1.5"])
@example(texts=["2024-01-31 10:00:00", "2024-01-31T10:00:00"])
@example(texts=["2024-01-31T10:00:00+01:00", "2024-01-31T10:00:00+02:00"])
@example(texts=["2024-01-31 10:00:00", "2024-01-31 10:00"])
@example(texts=["2024-01-31", "2024-01-31 10:00:00"])
@example(texts=["1" + "0" * 39])
@example(texts=["47996901.87758261", "50346466396410220"])
@pytest.mark.usefixtures("tiny_blocks")
def test_a_column_prints_back_as_the_file_has_it(tmp_path: Path, texts: list[str]) -> None:
    column = parse(write(tmp_path, "x.csv", "a\n" + "".join(f'"{text}"\n' for text in texts)))["a"]
    assert _prints_back(texts, column), (column.type, column.to_pylist())


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2024-01-31T10:00:00Z", "2024-02-01T00:00:00Z"], pa.timestamp("us", "UTC")),
        (["2024-01-31T10:00:00+02:00", "2024-02-01T00:00:00+02:00"], pa.timestamp("us", "UTC")),
        (["2024-01-31 10:00:00", "2024-02-01 00:00:00"], pa.timestamp("us")),
        (["2024-01-31 10:00:00.123", "2024-02-01 00:00:00.000"], pa.timestamp("us")),
        (["2024-01-31T10:00:00.120000", "2024-02-01T00:00:00"], pa.timestamp("us")),
        (["2024-01-31 10:00:00.12", "2024-02-01 00:00:00"], pa.timestamp("us")),
        (["1.5", "2", "0.001"], pa.float64()),
        (["1.5", "2.0", "1e-05"], pa.float64()),
        (["1.5", "2", "1e-05"], pa.float64()),
    ],
)
@pytest.mark.usefixtures("tiny_blocks")
def test_what_one_program_prints_gets_its_type(tmp_path: Path, texts: list[str], kind: pa.DataType) -> None:
    column = parse(write(tmp_path, "x.csv", "a\n" + "".join(f"{text}\n" for text in texts * 20)))["a"]
    assert column.type == kind


@pytest.mark.parametrize(
    ("texts", "text_reason"),
    [
        (["00501", "7"], "no number type prints all values as they are in the file, for example '00501'"),
        (["1.5", "2", "3.0"], "no number type prints all values as they are in the file, for example '3.0'"),
        (
            ["2024-01-31T10:00:00+01:00", "2024-03-31T10:00:00+02:00"],
            "its values are written in several ways, such as '2024-01-31T10:00:00+01:00' and '2024-03-31T10:00:00+02:00'",
        ),
        (["true", "FALSE"], "its values are written in several ways, such as 'FALSE' and 'true'"),
        (["yes", "no"], None),
    ],
)
def test_a_column_that_stays_text_is_told_with_its_reason(tmp_path: Path, texts: list[str], text_reason: str | None) -> None:
    file = write(tmp_path, "x.csv", "a,b\n" + "".join(f"{text},x\n" for text in texts))
    with parsed_files([str(file)]) as parsed:
        assert parsed.text_reasons == ({} if text_reason is None else {"a": text_reason})
