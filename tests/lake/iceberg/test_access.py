"""Opening a lake, and what its errors say when it is not there."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tiering.errors import InvalidArgument, LakeUnavailable
from tiering.lake.base import Lake, LakeTieringFactory
from tiering.lake.registry import open_lake
from tiering.model.tables import TablePath


def test_it_is_what_the_interface_asks_for(kit: Any) -> None:
    kit.lake.ensure_table(kit.table())
    assert isinstance(kit.lake, Lake)
    assert isinstance(kit.lake.tiering_factory(kit.table()), LakeTieringFactory)


def test_an_unknown_format_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(InvalidArgument, match="delta") as caught:
        open_lake("delta", {})
    assert "iceberg" in caught.value.hint


def test_no_table_is_no_view(kit: Any) -> None:
    assert kit.lake.view(kit.table().path) is None


def test_a_lake_folder_that_cannot_be_written_is_named(kit: Any) -> None:
    (kit.folder / "lake").write_text("a file where the folder should be")
    with pytest.raises(LakeUnavailable, match=r"cannot create the lake table sales\.orders in file://") as caught:
        kit.lake.ensure_table(kit.table())
    assert str(kit.folder / "lake") in caught.value.message
    assert caught.value.retryable


def test_a_catalog_that_cannot_be_opened_is_unavailable(kit: Any, tmp_path: Path) -> None:
    missing = open_lake("iceberg", {"type": "sql", "uri": f"sqlite:///{tmp_path}/no/such/folder/x.db", "warehouse": f"file://{tmp_path}"})
    with pytest.raises(LakeUnavailable, match="unable to open database file"):
        missing.view(kit.table().path)


def test_a_locked_catalog_is_unavailable_and_comes_back(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    uri = f"{kit.properties['uri']}?timeout=0.1"
    lake = open_lake("iceberg", {**kit.properties, "uri": uri})
    with sqlite3.connect(kit.folder / "lake-catalog.db") as blocker:
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LakeUnavailable, match="locked"):
            lake.view(table.path)
    blocker.close()
    assert lake.view(table.path) is not None


def test_passwords_do_not_show_in_errors() -> None:
    lake = open_lake("iceberg", {"type": "rest", "uri": "http://user:topsecret@127.0.0.1:1/", "token": "topsecret"})
    with pytest.raises(LakeUnavailable) as caught:
        lake.view(TablePath("sales", "orders"))
    assert "topsecret" not in caught.value.message
