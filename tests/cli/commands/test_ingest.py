"""`lakeward ingest` as a person and as a program meet it: a bar on a terminal, one line elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.terminals import Terminal
from tiering.model.names import table_path

ROWS = 300_000
LOADED = table_path("shelf", "loaded")
PLANES = table_path("shelf", "planes")
SAID = f"shelf.loaded: created, {ROWS:,} rows appended; offsets by bucket: 0: [0, {ROWS})"
COLUMNS = "  columns: n BIGINT"


@pytest.fixture
def numbers(stocked: Deployment, tmp_path: Path) -> Iterator[Path]:
    """A file that takes several writes. Its table is gone after the test."""
    file = tmp_path / "numbers.csv"
    file.write_text("n\n" + "\n".join(map(str, range(ROWS))) + "\n")
    yield file
    stocked.drop(LOADED)


def test_on_a_terminal_a_bar_shows_what_is_read_and_written_and_is_gone_at_the_end(stocked: Deployment, numbers: Path) -> None:
    with Terminal("ingest", str(LOADED), str(numbers), "--uri", stocked.uri) as terminal:
        assert terminal.wait_ended() == 0
    assert "reading numbers.csv" in terminal.text
    assert f"writing to {LOADED}" in terminal.text
    assert f"{ROWS}/{ROWS}" in terminal.text
    assert terminal.bar_is_gone()
    assert [line.rstrip() for line in terminal.text.rstrip().split("\n")[-2:]] == [SAID, COLUMNS]


def test_elsewhere_only_what_was_done_is_written(lakeward: Lakeward, numbers: Path) -> None:
    ended = lakeward("ingest", str(LOADED), str(numbers))
    assert (ended.status, ended.out, ended.err) == (0, f"{SAID}\n{COLUMNS}\n", "")


def test_rows_are_upserted_and_keys_deleted(stocked: Deployment, lakeward: Lakeward, tmp_path: Path) -> None:
    planes, gone = tmp_path / "planes.csv", tmp_path / "gone.csv"
    planes.write_text("tail,year,model\nN1,2004,A320\nN2,NA,B737\nN1,2005,A321\n")
    gone.write_text("tail\nN1\nN9\n")
    try:
        upserted = lakeward("ingest", str(PLANES), str(planes), "--primary-key", "tail")
        columns = "  columns: tail STRING NOT NULL, year BIGINT, model STRING\n"
        assert (upserted.status, upserted.out) == (0, f"{PLANES}: created, 3 rows upserted; offsets by bucket: 0: [0, 2)\n{columns}")
        deleted = lakeward("ingest", str(PLANES), str(gone), "--deletes")
        assert (deleted.status, deleted.out) == (0, f"{PLANES}: 1 of 2 keys deleted; offsets by bucket: 0: [2, 3)\n")
    finally:
        stocked.drop(PLANES)


def test_files_of_a_spreadsheet_are_loaded_and_what_was_found_is_told(stocked: Deployment, lakeward: Lakeward, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"export {number}.csv").write_bytes(f"Order ID;zip;note\n{number};0050{number};grün\n".encode("utf-16"))
    words = ("ingest", str(LOADED), f"{tmp_path}/export*.csv")
    refused = lakeward(*words)
    assert refused.status == 2
    assert "export 1.csv, line 1: 'Order ID' is not a valid column name" in refused.err
    assert "--rename 'Order ID=Order_ID'" in refused.err.replace("\n", " ")
    try:
        loaded = lakeward(*words, "--rename", "Order ID=order_id", "--type", "note=STRING")
        assert (loaded.status, loaded.err) == (0, "")
        assert loaded.out.splitlines() == [
            f"{LOADED}: created, 2 rows appended; offsets by bucket: 0: [0, 2)",
            "  columns: order_id BIGINT, zip STRING, note STRING",
            "  zip is STRING: no number type prints all values as they are in the file, for example '00501'. "
            "For a new table, --type zip=TYPE decides.",
            "  read with the delimiter ';' and the encoding utf-16",
        ]
        (tmp_path / "rows.csv").write_text("7#00007#x\n")
        again = lakeward("ingest", str(LOADED), str(tmp_path / "rows.csv"), "--no-header", "--delimiter", "#")
        assert (again.status, again.out) == (0, f"{LOADED}: 1 row appended; offsets by bucket: 0: [2, 3)\n")
        other = lakeward("ingest", str(LOADED), str(tmp_path / "rows.csv"), "--no-header", "--delimiter", "#", "--type", "zip=INT")
        assert (other.status, "has the column 'zip' as string, not int32" in other.err) == (2, True)
    finally:
        stocked.drop(LOADED)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--schema", "id BIGINT", "--type", "id=INT"), "--schema and --type cannot be combined"),
        (("--schema", "id BIGINT NOT NULL"), "--schema 'id BIGINT NOT NULL'"),
        (("--type", "id=WORD"), "'WORD' is not a type of Spark SQL"),
        (("--rename", "id"), "--rename 'id' does not have the form OLD=NEW"),
        (("--rename", "id=a b"), "'a b' is not a valid column name"),
        (("--delimiter", "::"), "--delimiter '::' is not one ASCII character"),
        (("--encoding", "latin-99"), "there is no encoding 'latin-99'"),
        (("--schema", "id BIGINT, n INT"), "the column 'n' is missing"),
        (("--schema", "n INT"), "the table has no column 'id'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(lakeward: Lakeward, tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")
    refused = lakeward("ingest", str(LOADED), str(tmp_path / "rows.csv"), *words)
    assert refused.status == 2
    assert reason in " ".join(refused.err.split())
