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
SAID = f"shelf.loaded: made, {ROWS:,} rows appended; offsets by bucket: 0: [0, {ROWS})"


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
    assert terminal.text.rstrip().endswith(SAID)


def test_elsewhere_only_what_was_done_is_written(lakeward: Lakeward, numbers: Path) -> None:
    ended = lakeward("ingest", str(LOADED), str(numbers))
    assert (ended.status, ended.out, ended.err) == (0, f"{SAID}\n", "")


def test_rows_are_upserted_and_keys_deleted(stocked: Deployment, lakeward: Lakeward, tmp_path: Path) -> None:
    planes, gone = tmp_path / "planes.csv", tmp_path / "gone.csv"
    planes.write_text("tail,year,model\nN1,2004,A320\nN2,NA,B737\nN1,2005,A321\n")
    gone.write_text("tail\nN1\nN9\n")
    try:
        upserted = lakeward("ingest", str(PLANES), str(planes), "--primary-key", "tail")
        assert (upserted.status, upserted.out) == (0, f"{PLANES}: made, 3 rows upserted; offsets by bucket: 0: [0, 2)\n")
        deleted = lakeward("ingest", str(PLANES), str(gone), "--deletes")
        assert (deleted.status, deleted.out) == (0, f"{PLANES}: 1 of 2 keys deleted; offsets by bucket: 0: [2, 3)\n")
    finally:
        stocked.drop(PLANES)
