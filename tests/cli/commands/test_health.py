"""`lakeward health`: the worst lake table first, for people and for programs."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from support.running.commands import Lakeward
from sys_tables.catalog_client import SystemCatalog


def row(table_name: str, score: int | None, reason: str | None = None) -> dict[str, Any]:
    names = ("table_id", "data_files", "small_files", "delete_files", "dead_row_share", "snapshots", "metadata_bytes", "rewrite_bytes")
    upkeep = {"last_upkeep_time": None, "next_upkeep_time": None, "upkeep_waits_for": "a slot that no other table needs"}
    return {"database_name": "sales", "table_name": table_name, "score": score, "reason": reason, **dict.fromkeys(names, 1), **upkeep}


def test_a_service_without_rounds_has_no_scores_and_says_why(lakeward: Lakeward) -> None:
    rows = json.loads(lakeward("health", "--format", "json").out)
    assert [shown["table"] for shown in rows] == ["sales.orders", "web.clicks"]
    assert {shown["score"] for shown in rows} == {None}
    assert {shown["reason"] for shown in rows} == {"Lakeward has not committed to the lake table yet"}
    people = lakeward("health", "web.clicks")
    assert (people.status, people.err) == (0, "")
    assert "web.clicks" in people.out
    assert "sales.orders" not in people.out
    as_csv = list(csv.DictReader(lakeward("health", "--format", "csv").out.splitlines()))
    assert as_csv[0].keys() == rows[0].keys()


def test_the_worst_table_comes_first(lakeward: Lakeward, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("fine", 100), row("unknown", None), row("ill", 12, "750 small files"), row("poor", 70)]
    monkeypatch.setattr(SystemCatalog, "read", lambda *_, **__: rows)
    lines = lakeward("health").out.splitlines()
    tables = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert tables == ["sales.ill", "sales.poor", "sales.fine", "sales.unknown"]
    assert any("750 small files" in line for line in lines)


@pytest.mark.parametrize("name", ["sales.none", "none.orders"])
def test_a_table_that_is_not_there_is_an_error(lakeward: Lakeward, name: str) -> None:
    ended = lakeward("health", name)
    assert ended.status != 0
    assert f"there is no lake table {name}" in ended.err
    assert "`lakeward tables` lists" in ended.err


def test_it_shows_the_last_and_the_next_upkeep(lakeward: Lakeward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemCatalog, "read", lambda *_, **__: [row("ill", 12) | {"last_upkeep_time": "2026-03-01T12:00:00"}])
    monkeypatch.setenv("COLUMNS", "300")
    shown = lakeward("health").out
    assert "2026-03-01T12:00:00" in shown
    assert "a slot that no other table needs" in shown
