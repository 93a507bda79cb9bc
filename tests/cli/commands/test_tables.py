"""`lakeward tables`: what there is, for people and for programs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from tiering.model.names import table_path


def test_people_see_each_table_and_its_shape(lakeward: Lakeward) -> None:
    ended = lakeward("tables")
    assert ended.status == 0
    [orders] = [line for line in ended.out.splitlines() if "sales.orders" in line]
    assert [cell.strip() for cell in orders.split("│")[1:-1]] == [
        "sales.orders",
        "LOG",
        "3",
        "",
        "",
        "iceberg",
        "5 min",
        "id BIGINT, text STRING",
    ]


def test_programs_see_every_column_and_the_same_in_both_forms(lakeward: Lakeward) -> None:
    as_json = json.loads(lakeward("tables", "--format", "json").out)
    as_csv = list(csv.DictReader(lakeward("tables", "--format", "csv").out.splitlines()))
    assert [row["table"] for row in as_json] == [row["table"] for row in as_csv] == ["sales.orders", "web.clicks"]
    assert as_json[0].keys() == as_csv[0].keys()
    assert (as_json[0]["freshness_ms"], as_csv[0]["freshness_ms"]) == (300_000, "300000")
    assert (as_json[0]["bucket_keys"], as_csv[0]["bucket_keys"]) == ([], "[]")
    assert (as_json[0]["lake_location"], as_csv[0]["lake_location"]) == (None, "")


def test_one_database_is_named_in_any_case_and_an_unknown_one_lists_what_there_is(lakeward: Lakeward) -> None:
    assert [row["table"] for row in json.loads(lakeward("tables", "WEB", "--format", "json").out)] == ["web.clicks"]
    unknown = lakeward("tables", "wbe")
    assert (unknown.status, unknown.out) == (2, "")
    assert "'wbe'" in unknown.err
    listed = unknown.err.strip().removesuffix(".").partition("The databases are: ")[2].split(", ")
    assert listed == sorted(listed)
    assert {"sales", "sys", "web"} <= set(listed)  # other tests on this service leave databases of theirs


def test_the_system_tables_are_listed_by_their_database(lakeward: Lakeward) -> None:
    listed = {row["table"]: row["comment"] for row in json.loads(lakeward("tables", "sys", "--format", "json").out)}
    assert listed["sys.lake_tiering_status"]
    assert listed["sys.tables"]


def test_a_reader_that_goes_away_is_no_error_to_read_about(stocked: Deployment) -> None:
    """The pipe's reading end is closed before the first row is written: what `| head` does, without the race."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tiering.cli.main", "tables", "--uri", stocked.uri],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    messages = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 141
    assert messages == ""


def test_what_was_loaded_is_told_to_programs_too(lakeward: Lakeward, stocked: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "Ørsted.csv"
    file.write_text("id\n1\n2\n")
    [row] = json.loads(lakeward("ingest", "shelf.loaded", str(file), "--format", "json").out)
    stocked.drop(table_path("shelf", "loaded"))
    assert (row["table"], row["created"], row["rows"]) == ("shelf.loaded", True, 2)
    assert row["ranges"] == [{"partition_id": None, "bucket_id": 0, "starting_offset": 0, "stopping_offset": 2}]
