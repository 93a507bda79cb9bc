"""Whatever bytes a file has, `lakeward ingest` reads them or says in one error what is wrong: never a stack trace, nothing half."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.running.ingested import parse, write
from tiering.errors import InvalidData, LakewardError

ROWS = 60
EXAMPLES = 150


def csv_file(folder: Path) -> bytes:
    return (
        "id,text,real,day\n" + "".join(f'{number},"r,{number}",{number / 3},2024-01-0{number % 9 + 1}\n' for number in range(ROWS))
    ).encode()


def ndjson_file(folder: Path) -> bytes:
    rows = (
        {"id": number, "text": f"é{number}", "list": [1, None], "nested": {"k": {"z": number}}, "day": "2024-01-01"}
        for number in range(ROWS)
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def parquet_file(folder: Path) -> bytes:
    columns = {
        "id": list(range(ROWS)),
        "text": [f"é{number}" for number in range(ROWS)],
        "at": pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * ROWS, pa.timestamp("us", "UTC")),
        "price": [Decimal("1.25")] * ROWS,
        "nested": [{"a": [number, None], "b": "z"} for number in range(ROWS)],
    }
    pq.write_table(pa.table(columns), folder / "whole", compression="none", use_dictionary=False)
    return (folder / "whole").read_bytes()


FORMATS: dict[str, Callable[[Path], bytes]] = {"csv": csv_file, "ndjson": ndjson_file, "parquet": parquet_file}


def damaged(whole: bytes, seed: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(seed.choice([1, 1, 2, 5, 20])):
        if not content:
            break
        # Half of them near the end, where Parquet keeps what it says of itself.
        at = seed.randrange(len(content)) if seed.random() < 0.5 else len(content) - 1 - seed.randrange(min(len(content), 1_500))
        match seed.randrange(5):
            case 0:
                content[at] ^= 1 << seed.randrange(8)
            case 1:
                content[at] = seed.choice([0, 255, *b'\n",[{}', seed.randrange(256)])
            case 2:
                del content[at : at + seed.randrange(1, 20)]
            case 3:
                content[at:at] = seed.randbytes(seed.randrange(1, 9))
            case _:
                del content[at:]
    return bytes(content)


@pytest.mark.parametrize("kind", FORMATS)
def test_damage_is_an_error_of_ours_or_leaves_rows_of_the_types_that_they_say(tmp_path: Path, kind: str) -> None:
    whole, seed = FORMATS[kind](tmp_path), random.Random(kind)
    assert parse(write(tmp_path, f"whole.{kind}", whole)).num_rows == ROWS
    read = refused = 0
    for _ in range(EXAMPLES):
        file = write(tmp_path, f"damaged.{kind}", damaged(whole, seed))
        try:
            parse(file).validate(full=True)
            read += 1
        except LakewardError:
            refused += 1
    assert read > 0
    assert refused > read


NOT_UTF8 = b"gr\xfc\xdfe"
"""A text in Latin-1."""


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("head.csv", b"id," + NOT_UTF8 + b"\n1,2\n", "line 1: the text is not UTF-8"),
        ("cell.csv", b"id,t\n1,a\n2," + NOT_UTF8 + b"\n", "line 3: the text is not UTF-8"),
        ("key.ndjson", b'{"id": 1}\n{"' + NOT_UTF8 + b'": 2}\n', "line 2: the text is not UTF-8"),
        ("cell.ndjson", b'{"t": "a"}\n\n{"t": "' + NOT_UTF8 + b'"}\n', "line 3: the text is not UTF-8"),
    ],
)
def test_text_that_is_not_utf8_is_named_with_its_line_and_what_to_do(tmp_path: Path, name: str, content: bytes, where: str) -> None:
    with pytest.raises(InvalidData) as raised:
        parse(write(tmp_path, name, content))
    assert raised.value.message == f"{tmp_path / name}, {where}"
    assert "--encoding latin-1" in raised.value.hint


def test_a_parquet_file_whose_text_is_not_utf8_is_refused_by_column_and_row(tmp_path: Path) -> None:
    texts = pa.array([b"fine", None, NOT_UTF8], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": [1, 2, 3], "nested": pa.StructArray.from_arrays([texts], ["t"])}), tmp_path / "x.parquet")
    with pytest.raises(InvalidData, match=r"x\.parquet, row 3: column 'nested': the text is not UTF-8"):
        parse(tmp_path / "x.parquet")


def test_a_header_that_no_reader_understands_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"x\.csv, line 1: the row that begins here has a quote that is never closed"):
        parse(write(tmp_path, "x.csv", 'id,"text\n1,2\n'))


def test_a_map_with_a_key_twice_is_refused_by_its_row_before_any_row_is_published(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)]] * 5 + [[("b", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"id": range(6), "tags": maps}), tmp_path / "x.parquet")
    with pytest.raises(InvalidData, match=r"x\.parquet, row 6: column 'tags': a map has the key 'b' twice"):
        parse(tmp_path / "x.parquet")
