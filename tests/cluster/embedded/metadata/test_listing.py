"""The list of tables is cached while nothing changes, and is right after every change, by any writer and with any outcome."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from support.clusters.embedded import PATH, SCHEMA, make_table, orders
from tiering.cluster.embedded.metadata import table_rows
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster
from tiering.cluster.writable import TableSpec
from tiering.errors import AlreadyExists, ClusterUnavailable, InvalidArgument, UnknownDatabase, UnknownTable
from tiering.model.schema.changes import additions
from tiering.model.tables import TablePath

NAMES = [TablePath(database, f"t{number}") for database in ("a", "a-b", "b") for number in range(3)]


def in_the_file(storage: EmbeddedStorage, database_name: str | None = None) -> list[object]:
    with storage.metadata.read() as connection:
        return list(table_rows.list_tables(connection, database_name))


def test_the_list_is_the_same_object_until_a_table_is_made_changed_or_dropped(storage: EmbeddedStorage) -> None:
    first_table = make_table(storage)
    kept = storage.tables()
    storage.append(PATH, orders(0, 5), "writer", 0)
    storage.create_database("other")
    assert storage.tables() is kept
    storage.alter_table(PATH, {"note": "new"})
    altered = storage.tables()
    assert [table.properties for table in altered] == [{"table.datalake.layout": "clean", "note": "new"}]
    assert list(kept) == [first_table], "who holds the former list has it as it was"
    storage.alter_table(PATH, {}, additions([pa.field("more", pa.string())]))
    assert storage.tables()[0].schema.names == [*SCHEMA.names, "more"]
    storage.drop_table(PATH)
    assert storage.tables() == []


@pytest.mark.parametrize("seed", range(5))
def test_the_list_says_what_the_file_says_after_any_story(storage: EmbeddedStorage, seed: int) -> None:
    story = random.Random(seed)
    for database in ("a", "a-b", "b", "empty"):
        storage.create_database(database)
    for step in range(60):
        path = story.choice(NAMES)
        with suppress(UnknownTable, AlreadyExists, InvalidArgument):
            match story.choice(["make", "make", "drop", "alter", "widen", "spoil"]):
                case "make":
                    make_table(storage, path=path)
                case "drop":
                    storage.drop_table(path)
                case "alter":
                    storage.alter_table(path, {"step": str(step)})
                case "widen":
                    storage.alter_table(path, {}, additions([pa.field(f"c{step}", pa.int64())]))
                case "spoil":
                    storage.alter_table(path, {"table.datalake.freshness": "soon"}, additions([pa.field("never", pa.int64())]))
        if story.random() < 0.5:
            assert storage.tables() == in_the_file(storage)
            assert [storage.table(table.path) for table in storage.tables()] == storage.tables()
            for gone in set(NAMES) - {table.path for table in storage.tables()}:
                with pytest.raises(UnknownTable, match=f"{gone}$"):
                    storage.table(gone)
            for database in ("a", "a-b", "b", "empty"):
                assert storage.tables(database) == in_the_file(storage, database)
    with pytest.raises(UnknownDatabase):
        storage.tables("c")


def test_a_write_that_landed_although_it_failed_is_seen(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.create_database(PATH.database_name)
    assert storage.tables() == []
    write = storage.metadata.write

    @contextmanager
    def unanswered() -> Iterator[sa.Connection]:
        with write() as connection:
            yield connection
        raise ClusterUnavailable("the answer was lost")

    monkeypatch.setattr(storage.metadata, "write", unanswered)
    with pytest.raises(ClusterUnavailable):
        storage.create_table(PATH, TableSpec(SCHEMA))
    assert [table.path for table in storage.tables()] == [PATH]
    with pytest.raises(ClusterUnavailable):
        storage.drop_table(PATH)
    assert storage.tables() == []


def test_a_read_that_fails_forgets_nothing(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(storage)
    assert len(storage.tables()) == 1
    storage.alter_table(PATH, {"note": "new"})

    def away() -> None:
        raise ClusterUnavailable("the disk is gone")

    monkeypatch.setattr(storage.metadata, "read", away)
    with pytest.raises(ClusterUnavailable):
        storage.tables()
    monkeypatch.undo()
    assert storage.tables()[0].properties == {"table.datalake.layout": "clean", "note": "new"}


def test_a_change_while_the_list_is_read_is_in_the_next_one(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(storage)
    storage.tables()
    storage.alter_table(PATH, {"note": "first"})
    read = table_rows.tables_by_id
    monkeypatch.setattr(
        "tiering.cluster.embedded.metadata.listing.tables_by_id", lambda connection, ids: (second(), read(connection, ids))[1]
    )

    def second() -> None:
        """Another writer, after the transaction of the read began: it sees the table as it was."""
        monkeypatch.undo()
        writer = threading.Thread(target=storage.alter_table, args=(PATH, {"note": "second"}))
        writer.start()
        writer.join(20)
        assert not writer.is_alive()

    storage.tables()
    assert storage.tables()[0].properties == {"table.datalake.layout": "clean", "note": "second"}


def test_who_reads_the_folder_without_its_lock_sees_every_change(storage: EmbeddedStorage, tmp_path: Path) -> None:
    storage.create_database(PATH.database_name)
    offline = ReadOnlyEmbeddedCluster(tmp_path / "cluster")
    assert offline.tables() == []
    make_table(storage)
    assert [table.path for table in offline.tables()] == [PATH]
    storage.drop_table(PATH)
    assert offline.tables() == []
    offline.close()
