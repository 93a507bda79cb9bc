"""Footers of data files: everything comes back, and what is damaged says so; and the runs of a split that is cut into files."""

from __future__ import annotations

import base64
import random
import zlib
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from tiering.lake.base import WriterInitContext
from tiering.lake.proof.file_footer import (
    MOST_PLAIN_RUNS,
    FileFooter,
    Run,
    decode_footer,
    encode_footer,
    merged,
    offsets_text,
    parse_runs,
    without,
)
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.writing.provenance import Provenance
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType

FOOTER = FileFooter(7, "uuid", "round", BucketKey(17, 3), 105, 2**64 - 1, ((0, 100), (105, 110)))
TABLE = TableInfo(7, TablePath("sales", "orders"), TableType.LOG, pa.schema([("id", pa.int64())]), 2, datetime(2026, 1, 1, tzinfo=UTC))


def test_a_footer_comes_back() -> None:
    for footer in (FOOTER, replace(FOOTER, bucket=BucketKey(None, 0)), replace(FOOTER, runs=(), changes=(5, 5), folded=3)):
        assert decode_footer(encode_footer(footer)) == footer
    assert encode_footer(FOOTER) == {
        "lakeward.footer": "1",
        "lakeward.table": "7/uuid",
        "lakeward.round": "round",
        "lakeward.bucket": "17/3",
        "lakeward.offsets": "0-100,105-110",
        "lakeward.rows": "105",
        "lakeward.checksum": "v1:ffffffffffffffff",
    }
    assert decode_footer({"parquet.avro.schema": "{}"}) is None


def test_a_sorted_file_says_so_and_has_a_version_that_older_releases_refuse() -> None:
    footer = replace(FOOTER, is_sorted=True)
    assert decode_footer(encode_footer(footer)) == footer
    assert encode_footer(footer).items() - encode_footer(FOOTER).items() == {("lakeward.footer", "2"), ("lakeward.order", "sorted")}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lakeward.footer", "3"),
        ("lakeward.table", "x/uuid"),
        ("lakeward.bucket", "first"),
        ("lakeward.offsets", "0-100"),
        ("lakeward.offsets", "0-100,99-104"),
        ("lakeward.offsets", "100-0"),
        ("lakeward.order", "shuffled"),
        ("lakeward.rows", "many"),
        ("lakeward.checksum", "v2:ffffffffffffffff"),
        ("lakeward.checksum", None),
        ("lakeward.folded", "3"),
        ("lakeward.round", None),
    ],
)
def test_a_footer_that_cannot_be_read_says_so(key: str, value: str | None) -> None:
    texts = {name: text for name, text in {**encode_footer(FOOTER), key: value}.items() if text is not None}
    with pytest.raises(ValueError, match=r"it|its|invalid|not enough"):
        decode_footer(texts)


def random_runs(rng: random.Random, count: int) -> tuple[Run, ...]:
    """Returns runs in order; some are neighbours, and some are far apart."""
    runs, reached = [], rng.choice((0, 1, 1 << 40))
    for _ in range(count):
        start = reached + rng.choice((0, 1, rng.randrange(1, 30), rng.randrange(1, 1 << 20)))
        reached = start + rng.choice((1, 1, rng.randrange(1, 1 << 16)))
        runs.append((start, reached))
    return tuple(runs)


def test_many_runs_come_back_from_a_compact_footer() -> None:
    rng = random.Random(40)
    for count in (0, 1, MOST_PLAIN_RUNS, MOST_PLAIN_RUNS + 1, *(rng.randrange(2 * MOST_PLAIN_RUNS, 5_000) for _ in range(50))):
        runs = random_runs(rng, count)
        footer = replace(FOOTER, runs=runs, rows=sum(stop - start for start, stop in runs))
        texts = encode_footer(footer)
        is_compact = count > MOST_PLAIN_RUNS
        assert (texts["lakeward.footer"], texts["lakeward.offsets"].startswith("z1:")) == (("2", True) if is_compact else ("1", False))
        assert decode_footer(texts) == footer


def test_the_compact_form_is_small() -> None:
    rng = random.Random(8)
    offsets = [offset for offset in range(800_000) if rng.randrange(8) == 3]  # one of the values of bucket(8, ...)
    runs = merged((offset, offset + 1) for offset in offsets)
    assert len(offsets_text(runs)) < 1.5 * len(runs)


def test_a_damaged_compact_form_says_so() -> None:
    runs = random_runs(random.Random(1), 1_000)
    rows = sum(stop - start for start, stop in runs)
    texts = encode_footer(replace(FOOTER, runs=runs, rows=rows))
    text = texts["lakeward.offsets"]
    bomb = "z1:" + base64.b64encode(zlib.compress(bytes(1 << 26), 9)).decode()
    backwards = "z1:" + base64.b64encode(zlib.compress(np.array([5, -3], "<i8").tobytes())).decode()
    for damaged in (text[:-8], text[:100] + "=" + text[100:], "z1:", "z2:" + text[3:], bomb, backwards, offsets_text(runs[:-1])):
        with pytest.raises(ValueError, match=r"it|invalid|Incorrect|padding|Only base64"):
            decode_footer({**texts, "lakeward.offsets": damaged})
    for most in (-1, 0, 999):
        with pytest.raises(ValueError, match="at most"):
            parse_runs(text, most)
    with pytest.raises(ValueError, match=f"for {10**30} rows"):
        decode_footer({**texts, "lakeward.rows": str(10**30)})


def test_files_of_a_split_share_its_runs_and_the_rest_has_no_rows() -> None:
    noted = Provenance(WriterInitContext(TABLE, "uuid", BucketKey(None, 1), None, "round", "nonce"))
    offsets = np.array([10, 11, 12, 15, 16, 20])
    noted.take_offsets(offsets[:4])
    noted.take_offsets(offsets[4:])
    footers = []
    for part in (range(2), range(2, 5), range(5, 6)):
        noted.add_rows(pa.table({"id": [int(offsets[place]) for place in part]}))
        footers.append(noted.end_file())
    assert [footer.runs for footer in footers] == [((10, 12),), ((12, 13), (15, 17)), ((20, 21),)]
    assert noted.without_rows(8, 23) == ((8, 10), (13, 15), (17, 20), (21, 23))
    assert noted.checksum == row_checksum(pa.table({"id": offsets}))


def test_runs_are_merged_and_taken_away() -> None:
    assert merged([(5, 7), (0, 2), (2, 5), (9, 9)]) == ((0, 7),)
    assert without(0, 10, []) == ((0, 10),)
    assert without(0, 10, [(0, 10)]) == ()
