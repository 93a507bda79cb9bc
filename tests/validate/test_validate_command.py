"""`lakeward validate` as a user types it, on a data folder without a coordinator."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from support.worlds.lake_world import LakeWorld
from tiering.cli.main import app
from tiering.errors import LakewardError


@pytest.fixture
def folder(world: LakeWorld, tmp_path: Path) -> Path:
    """A data folder with one tiered table, as `lakeward up` leaves it."""
    (tmp_path / "VERSION").write_text("1\n")
    table = world.table("orders")
    world.append(table, 0, 50)
    world.tier(table)
    world.close()
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["validate", *arguments])
    return result.exit_code, str(result.exception) if isinstance(result.exception, LakewardError) else result.output


def test_a_right_table_ends_with_status_0_and_a_row_a_check(folder: Path) -> None:
    status, printed = run("sales.orders", "--data", str(folder), "--level", "rows", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert status == 0
    assert [row["check"] for row in rows] == ["base", "files", "rows", "rows", "offsets", "offsets", "values", "values"]
    assert {row["ok"] for row in rows} == {"true"}


def test_a_wrong_one_ends_with_status_1_and_names_the_place(folder: Path) -> None:
    [file] = (folder / "lake").rglob("__bucket=1/*.parquet")
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(pa.concat_tables([rows.slice(0, 10), rows.slice(11)]), file)
    status, printed = run("sales.orders", "--data", str(folder))
    assert status == 1
    assert "bucket 1: offset 10 is missing" in printed


def test_a_folder_that_is_none_is_refused_and_left_alone(tmp_path: Path) -> None:
    status, printed = run("sales.orders", "--data", str(tmp_path / "nothing"))
    assert status != 0
    assert "is not a Lakeward data folder" in printed
    assert not (tmp_path / "nothing").exists()


def test_a_folder_that_a_newer_version_wrote_is_refused_and_left_alone(folder: Path) -> None:
    (folder / "VERSION").write_text("99\n")
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    status, printed = run("sales.orders", "--data", str(folder))
    assert status != 0
    assert "has format version 99; this version of Lakeward reads version 1" in printed
    (folder / "VERSION").write_text("1\n")
    with sa.create_engine(f"sqlite:///{folder / 'cluster' / 'meta.db'}").begin() as connection:
        connection.execute(sa.text("UPDATE facts SET value = '99' WHERE name = 'format_version'"))
    status, printed = run("sales.orders", "--data", str(folder))
    assert status != 0
    assert "was written by a newer version (format 99" in printed
    assert {file for file in folder.rglob("*") if file.suffix in (".arrow", ".parquet")} <= before.keys()
