"""A cluster that is read with no coordinator running, by what its data folder says: at the right address, and giving nothing away."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_owner import CLUSTER_ID
from support.clusters.fluss_server import PASSWORD, USER, login_servers
from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.kind import CLUSTER_KIND
from tiering.cluster.fluss.memory import FlussMemory, RecordedTable
from tiering.cluster.fluss.remote_storage import ENDPOINT
from tiering.cluster.fluss.settings import BOOTSTRAP_SERVERS, MODE
from tiering.cluster.fluss.settings import CLUSTER_ID as CLUSTER_ID_FACT
from tiering.cluster.fluss.source import FlussSource
from tiering.errors import ClusterAccessDenied, ClusterUnavailable, SetupError
from tiering.model.tables import TableInfo, TablePath


def remember(folder: Path, servers: str, known: RecordedTable | None = None) -> None:
    """Writes the files of a coordinator into `folder`."""
    memory = FlussMemory(folder)
    for name, value in ((CLUSTER_ID_FACT, CLUSTER_ID), (BOOTSTRAP_SERVERS, servers), (MODE, "exclusive")):
        memory.set_fact(name, value)
    memory.remember_tables([] if known is None else [known])
    memory.close()


@pytest.fixture
def table(tables: FlussTables) -> TableInfo:
    return tables.create("read_only", pa.schema([pa.field("id", pa.int64())]))


def test_its_tables_are_read_as_the_folder_says(fluss: LocalFlussCluster, table: TableInfo, tmp_path: Path) -> None:
    remember(tmp_path, fluss.bootstrap_servers)
    cluster = CLUSTER_KIND.open_read_only(tmp_path)
    assert cluster.cluster_id == CLUSTER_ID
    assert cluster.table(table.path).table_id == table.table_id
    assert cluster.leases() == []
    cluster.close()
    unreachable = {BOOTSTRAP_SERVERS: "127.0.0.1:1"}
    cluster = CLUSTER_KIND.open_read_only(tmp_path, unreachable)
    with pytest.raises(ClusterUnavailable, match=r"127\.0\.0\.1:1"):
        cluster.table(table.path)
    cluster.close()


def test_no_password_goes_to_an_address_that_the_folder_alone_names(
    fluss: LocalFlussCluster, table: TableInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may come from another person."""
    monkeypatch.setenv("FLUSS_USERNAME", USER)
    monkeypatch.setenv("FLUSS_PASSWORD", PASSWORD)
    remember(tmp_path, login_servers(fluss))
    cluster = CLUSTER_KIND.open_read_only(tmp_path)
    with pytest.raises(ClusterAccessDenied, match="not completed authentication"):
        cluster.table(table.path)
    cluster.close()
    cluster = CLUSTER_KIND.open_read_only(tmp_path, {BOOTSTRAP_SERVERS: login_servers(fluss)})
    assert cluster.table(table.path).table_id == table.table_id
    cluster.close()


def test_no_signed_request_goes_to_a_storage_that_the_folder_alone_names(tmp_path: Path) -> None:
    """Requests to S3 are signed with the keys of this process."""
    remember(tmp_path, "127.0.0.1:1")
    memory = FlussMemory(tmp_path)
    memory.set_fact(ENDPOINT, "http://elsewhere:9000")
    memory.close()
    for servers, endpoints in (({}, []), ({BOOTSTRAP_SERVERS: "127.0.0.1:1"}, ["http://elsewhere:9000"])):
        cluster = CLUSTER_KIND.open_read_only(tmp_path, servers)
        assert isinstance(cluster, FlussSource)
        assert list(cluster._settings.storage.values()) == endpoints
        cluster.close()


def test_another_cluster_under_the_address_is_not_read_for_the_folders(fluss: LocalFlussCluster, table: TableInfo, tmp_path: Path) -> None:
    remember(tmp_path, fluss.bootstrap_servers, RecordedTable(table.table_id, TablePath("sales", "of_the_former_cluster"), 1))
    cluster = CLUSTER_KIND.open_read_only(tmp_path)
    with pytest.raises(ClusterUnavailable, match="another Fluss cluster answers"):
        cluster.table(table.path)
    cluster.close()


def test_a_folder_that_knows_no_fluss_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="has no state of a Fluss cluster"):
        CLUSTER_KIND.open_read_only(tmp_path)
