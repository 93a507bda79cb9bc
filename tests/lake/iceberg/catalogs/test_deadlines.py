"""Catalogs that accept a connection and never let a request end: each request still ends, and delays no other caller."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote_plus

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from support.lakes.lake_kit import bucket
from support.running.postgresql import DATABASE, PASSWORD, USER, running_postgresql
from support.running.silent_servers import silent_server
from tiering.errors import CommitOutcomeUnknown, LakeUnavailable
from tiering.lake.catalog_timeouts import CHANGE_DEADLINE, READ_DEADLINE
from tiering.lake.iceberg.catalogs.opening import SqlLakeCatalog
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TablePath

PATH, OTHER = TablePath("sales", "orders"), TablePath("sales", "other")
DEADLINE_MS = "3000"
"""A busy machine answers within that, where something answers."""
QUICK = {READ_DEADLINE.name: DEADLINE_MS, CHANGE_DEADLINE.name: DEADLINE_MS}
LONG_SECONDS = 25.0
"""More than the deadlines with what a busy machine adds; less than the time-outs that a silent peer has beside them."""


def ends_in_time(ask: Callable[[], object], match: str) -> None:
    started = time.monotonic()
    with pytest.raises(LakeUnavailable, match=match):
        ask()
    assert time.monotonic() - started < LONG_SECONDS


@pytest.mark.parametrize("drip", [b"", b" "], ids=["silent", "a byte now and then"])
@pytest.mark.parametrize("kind", ["rest", "sql"])
def test_a_catalog_that_never_answers_is_waited_for_until_the_deadline(kind: str, drip: bytes, tmp_path: Path) -> None:
    with silent_server(drip) as port:
        scheme = "http" if kind == "rest" else "postgresql+psycopg"
        lake = IcebergLake({"type": kind, "uri": f"{scheme}://127.0.0.1:{port}/db", "warehouse": str(tmp_path), **QUICK})
        if kind == "sql" and drip:
            ends_in_time(lambda: lake.view(PATH), "cannot read the lake table")  # no PostgreSQL talks like that
            return
        ends_in_time(lambda: lake.view(PATH), "has not answered within 3")
        ends_in_time(lambda: lake.view(OTHER), "has not answered")  # the same catalog: it cannot be opened


def test_a_table_that_hangs_is_refused_until_it_answers_while_others_are_read(kit: Any) -> None:
    table, other = kit.table(), replace(kit.table(), table_id=2, path=OTHER)
    lake = IcebergLake({**kit.properties, READ_DEADLINE.name: DEADLINE_MS})
    lake.ensure_table(other)
    place = Path(cast(Table, lake.ensure_table(table).handle).metadata_location.removeprefix("file://"))
    content = place.read_bytes()
    place.unlink()
    os.mkfifo(place)  # an open for reading waits for a writer
    ends_in_time(lambda: lake.view(table.path), "has not answered within")
    ends_in_time(lambda: lake.view(table.path), "has not answered a request of")
    assert lake.view(OTHER) is not None
    with suppress(BrokenPipeError):  # the reader goes on; one that cannot seek in what it opened is gone again before anything is written
        place.write_bytes(content)
    place.unlink()
    place.write_bytes(content)
    eventually(lambda: lake.view(table.path) is not None)


def test_a_database_that_stands_still_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    with running_postgresql(tmp_path / "postgresql") as port:
        uri = f"postgresql+psycopg://{USER}:{quote_plus(PASSWORD)}@127.0.0.1:{port}/{DATABASE}"
        lake = IcebergLake({"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/lake", **QUICK})
        assert lake.view(PATH) is None
        with cast(Any, lake._open()).engine.connect() as connection:
            backend = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        os.kill(backend, signal.SIGSTOP)  # its kernel still takes what is sent
        try:
            ends_in_time(lambda: lake.view(PATH), "has not answered within")
            assert lake.view(OTHER) is None  # by another connection
        finally:
            os.kill(backend, signal.SIGCONT)


@pytest.mark.parametrize("late_one_is_first", [True, False], ids=["before the next round", "after the next round"])
def test_a_commit_that_goes_on_after_its_deadline_lands_once_or_never(
    late_one_is_first: bool, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, goes_on, ended = kit.table(), threading.Event(), threading.Event()
    first, second = bucket(0), bucket(1)
    hanging = kit.prepare(table, "r1", {first: 5}, lake=IcebergLake({**kit.properties, CHANGE_DEADLINE.name: DEADLINE_MS}))
    other = kit.prepare(table, "r2", {first: 5, second: 3})
    hold_first_commit(monkeypatch, goes_on, ended)
    with pytest.raises(CommitOutcomeUnknown, match="has not answered within"):
        hanging.commit()
    with pytest.raises(CommitOutcomeUnknown, match="has not answered a request of"):
        hanging.commit()
    hanging.committer().abort(hanging.committable)  # deletes nothing
    if late_one_is_first:
        goes_on.set()
        assert ended.wait(LONG_SECONDS)
        with pytest.raises(CommitOutcomeUnknown):
            other.commit()
        assert kit.view(table).marker.round_id == "r1"
        assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(5)]
        return
    other.commit()
    goes_on.set()
    assert ended.wait(LONG_SECONDS)
    assert kit.view(table).marker.round_id == "r2"
    assert kit.offsets_in_lake(table) == [*((0, offset) for offset in range(5)), *((1, offset) for offset in range(3))]


def hold_first_commit(monkeypatch: pytest.MonkeyPatch, goes_on: threading.Event, ended: threading.Event) -> None:
    """The catalog's first commit has checked what it requires, and stands still before it writes until `goes_on`."""
    stage, commit, turns = SqlLakeCatalog._update_and_stage_table, SqlCatalog.commit_table, iter([True])

    def staged(*arguments: Any) -> Any:
        result = stage(*arguments)
        if next(turns, False):
            assert goes_on.wait(LONG_SECONDS)
        return result

    def committed(*arguments: Any) -> Any:
        try:
            return commit(*arguments)
        finally:
            if goes_on.is_set():
                ended.set()

    monkeypatch.setattr(SqlLakeCatalog, "_update_and_stage_table", staged)
    monkeypatch.setattr(SqlCatalog, "commit_table", committed)


def eventually(is_so: Callable[[], bool]) -> None:
    """Asks until it is so; fails after LONG_SECONDS."""
    end = time.monotonic() + LONG_SECONDS
    while True:
        with suppress(LakeUnavailable):
            if is_so():
                return
        assert time.monotonic() < end
        threading.Event().wait(0.02)
