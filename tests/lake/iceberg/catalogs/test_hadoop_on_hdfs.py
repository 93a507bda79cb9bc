"""A HadoopCatalog on a real HDFS: no version is ever replaced, and a commit whose answer was lost is known for what it was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hdfs_native import Client
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField

from support.hadoop.racing_committers import race
from support.repository import ROOT
from tiering.cluster.fluss.remote_files import open_remote
from tiering.errors import InvalidArgument, LakeUnavailable, SetupError
from tiering.files import hdfs as hdfs_files
from tiering.files.hdfs import Hdfs, open_hdfs
from tiering.lake.fluss.options import lake_of_fluss
from tiering.lake.iceberg.catalogs.hadoop import HadoopCatalog
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TablePath

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
ORDERS = ("sales", "orders")


def fluss_options(warehouse: str) -> Mapping[str, str]:
    return lake_of_fluss({"datalake.iceberg.type": "hadoop", "datalake.iceberg.warehouse": warehouse}).properties


@pytest.fixture
def folder() -> str:
    """The warehouse's path on HDFS."""
    return f"/{uuid.uuid4().hex}"


@pytest.fixture
def files(hdfs: str) -> Hdfs:
    return open_hdfs(hdfs)


@pytest.fixture
def catalog(hdfs: str, folder: str) -> HadoopCatalog:
    catalog = open_catalog(fluss_options(f"hdfs://{hdfs}{folder}"))
    assert isinstance(catalog, HadoopCatalog)
    catalog.create_namespace("sales")
    return catalog


def set_property(catalog: Any, table: Table, **values: str) -> None:
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (SetPropertiesUpdate(updates=values),))


def names(files: Hdfs, folder: str) -> list[str]:
    return sorted(status.path.rsplit("/", 1)[-1] for status in files.list(f"{folder}/sales/orders/metadata"))


def rename_by(monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], None]], None]) -> None:
    """The next version's rename goes through `act`, which may call it; the hint's goes its own way."""
    rename = Hdfs.rename

    def replaced(self: Hdfs, source: str, target: str) -> None:
        if target.endswith(".metadata.json"):
            monkeypatch.setattr(Hdfs, "rename", rename)
            act(lambda: rename(self, source, target))
        else:
            rename(self, source, target)

    monkeypatch.setattr(Hdfs, "rename", replaced)


def test_a_table_lies_where_iceberg_looks_for_it_and_goes_with_all_its_files(
    catalog: HadoopCatalog, files: Hdfs, hdfs: str, folder: str
) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)
    set_property(catalog, table, a="1")
    assert names(files, folder) == ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]
    assert files.open(f"{folder}/sales/orders/metadata/version-hint.text").read() == b"2"
    again = catalog.load_table(ORDERS)
    assert again.metadata_location == f"hdfs://{hdfs}{folder}/sales/orders/metadata/v2.metadata.json"
    assert again.properties["a"] == "1"
    assert (catalog.list_namespaces(), catalog.list_tables("sales")) == ([("sales",)], [ORDERS])
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(ORDERS, SCHEMA)
    catalog.drop_table(ORDERS)
    assert files.list(f"{folder}/sales") == []
    with pytest.raises(NoSuchTableError):
        catalog.load_table(ORDERS)


@pytest.mark.soak
def test_of_processes_that_commit_at_once_one_wins_each_version_and_no_commit_is_lost(
    catalog: HadoopCatalog, files: Hdfs, folder: str
) -> None:
    catalog.create_table(ORDERS, SCHEMA)
    properties = race(catalog.properties["warehouse"], 3, 6)
    assert properties <= catalog.load_table(ORDERS).properties.keys()
    assert [name for name in names(files, folder) if name.endswith(".json")] == sorted(
        f"v{number}.metadata.json" for number in range(1, 20)
    )


def test_a_version_that_came_in_between_is_never_replaced(
    catalog: HadoopCatalog, files: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)

    def late(rename: Callable[[], None]) -> None:
        set_property(open_catalog(catalog.properties), table, winner="other")
        rename()

    rename_by(monkeypatch, late)
    with pytest.raises(CommitFailedException, match="updated by another process"):
        set_property(catalog, table, winner="first")
    assert catalog.load_table(ORDERS).properties["winner"] == "other"
    assert names(files, folder) == ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]  # nothing temporary stays


def test_a_commit_whose_answer_was_lost_is_known_for_what_it_was(
    catalog: HadoopCatalog, files: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)

    def lost(rename: Callable[[], None]) -> None:
        rename()
        raise TimeoutError("no answer")

    rename_by(monkeypatch, lost)
    set_property(catalog, table, number="1")

    def repeated(rename: Callable[[], None]) -> None:  # as the client does when a connection breaks
        rename()
        rename()

    rename_by(monkeypatch, repeated)
    set_property(catalog, table, number="2")

    def never(rename: Callable[[], None]) -> None:
        raise TimeoutError("no answer")

    rename_by(monkeypatch, never)
    with pytest.raises(TimeoutError):
        set_property(catalog, table, number="3")
    assert names(files, folder) == ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json", "version-hint.text"]
    assert catalog.load_table(ORDERS).properties["number"] == "2"

    def away(rename: Callable[[], None]) -> None:
        monkeypatch.setattr(Hdfs, "delete", lambda *_, **__: never(rename))
        raise TimeoutError("no answer")

    rename_by(monkeypatch, away)
    with pytest.raises(CommitStateUnknownException):
        set_property(catalog, table, number="4")


def test_a_commit_that_slept_does_not_meet_the_next_table_of_that_name(
    catalog: HadoopCatalog, files: Hdfs, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)

    def made_anew() -> None:
        catalog.drop_table(ORDERS)
        catalog.create_table(ORDERS, SCHEMA)

    def slept(rename: Callable[[], None]) -> None:
        made_anew()
        rename()

    rename_by(monkeypatch, slept)
    with pytest.raises(CommitStateUnknownException):
        set_property(catalog, table, stale="yes")
    assert names(files, folder) == ["v1.metadata.json", "version-hint.text"]

    table, create = catalog.load_table(ORDERS), Hdfs.create

    def written_late(self: Hdfs, path: str, *, overwrite: bool) -> Any:
        monkeypatch.setattr(Hdfs, "create", create)
        made_anew()
        return self.create(path, overwrite=overwrite)

    monkeypatch.setattr(Hdfs, "create", written_late)
    with pytest.raises(CommitFailedException, match="was dropped"):
        set_property(catalog, table, stale="yes")
    assert names(files, folder) == ["v1.metadata.json", "version-hint.text"]


def test_what_hdfs_refuses_is_named(catalog: HadoopCatalog, hdfs: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LakeUnavailable, match=r"no HDFS answers at 127\.0\.0\.1:1: Connection refused"):
        IcebergLake(fluss_options("hdfs://127.0.0.1:1/lake")).view(TablePath("sales", "orders"))

    script = f"from tiering.files.hdfs import open_hdfs\nopen_hdfs({hdfs!r}).make_folder({folder!r} + '/sales/theirs')"
    other = {**os.environ, "PYTHONPATH": str(ROOT), "HADOOP_USER_NAME": "somebody"}
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=other, capture_output=True, text=True, check=False)
    assert f"PermissionError: [Errno 13] HDFS at {hdfs} refuses" in ended.stderr
    assert "user=somebody" in ended.stderr

    catalog.create_table(ORDERS, SCHEMA)
    with pytest.raises(InvalidArgument, match=r"hdfs\.user") as caught:
        open_catalog({**fluss_options(f"hdfs://{hdfs}{folder}"), "hdfs.user": "somebody"}).load_table(ORDERS)
    assert "HADOOP_USER_NAME" in caught.value.hint

    hdfs_files._client_of.cache_clear()
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(SetupError, match="hdfs_native") as missing:
        open_catalog(fluss_options(f"hdfs://{hdfs}{folder}"))
    assert "[hdfs]" in missing.value.hint


def test_a_server_that_never_answers_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        authority = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.5 s"):
            Hdfs(authority, Client(f"hdfs://{authority}"), seconds=0.5).status("/")


def test_remote_files_of_a_cluster_are_read_from_hdfs(hdfs: str, files: Hdfs, folder: str) -> None:
    with files.create(f"{folder}/a b%20/1.log", overwrite=False) as file:
        file.write(b"abcdef")
    system, path = open_remote(f"hdfs://{hdfs}{folder}/a b%20/1.log", {})
    with system.open_input_file(path) as opened:
        assert (opened.size(), opened.read(4), opened.read_at(2, 3)) == (6, b"abcd", b"de")
