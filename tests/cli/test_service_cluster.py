"""The cluster of a service is opened by the kind that the service names, and written to where that kind can be."""

from __future__ import annotations

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from tiering.cli.service_cluster import service_cluster, writable_service_cluster
from tiering.cluster import registry
from tiering.cluster.kinds import ClusterAddress
from tiering.errors import ServiceUnreachable, SetupError


class UnwritableCluster:
    """The view of a cluster that takes rows from its own clients alone."""

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self.closed = False

    def close(self) -> None:
        self.closed = True


class UnwritableKind:
    """A `ClusterKind` as commands use it."""

    def connect(self, address: ClusterAddress) -> UnwritableCluster:
        return UnwritableCluster(address)


UNWRITABLE_KIND = UnwritableKind()


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's kind is one that commands cannot write to."""
    monkeypatch.setattr(registry, "BUILT_IN", {registry.EMBEDDED: f"{__name__}:UNWRITABLE_KIND"})


def test_the_cluster_is_the_services_own(stocked: Deployment) -> None:
    with writable_service_cluster(stocked.uri) as cluster, stocked.cluster() as own:
        assert cluster.cluster_id == own.cluster_id
        assert [str(table.path) for table in cluster.tables("sales")] == ["sales.orders"]


def test_the_kind_gets_the_address_and_its_cluster_is_closed(stocked: Deployment, unwritable: None) -> None:
    with stocked.cluster() as own:
        cluster_id = own.cluster_id
    with service_cluster(stocked.uri) as cluster:
        assert isinstance(cluster, UnwritableCluster)
        assert (cluster.address, cluster.closed) == (ClusterAddress(stocked.uri, cluster_id), False)
    assert cluster.closed


@pytest.mark.parametrize("words", [("drop", "sales.orders", "--yes"), ("add-column", "sales.orders", "note", "string")])
def test_a_cluster_that_others_write_to_is_left_alone(lakeward: Lakeward, unwritable: None, words: tuple[str, ...]) -> None:
    ended = lakeward(*words)
    assert ended.status != 0
    assert "cannot be written to by this command" in ended.err
    assert "Use the cluster's own client." in ended.err


def test_what_cannot_be_opened_says_why(stocked: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServiceUnreachable), service_cluster("127.0.0.1:1"):
        pass
    with monkeypatch.context() as patched:
        patched.setattr(registry, "BUILT_IN", {})
        with pytest.raises(SetupError, match="no cluster of kind 'embedded'"), service_cluster(stocked.uri):
            pass
    with writable_service_cluster(stocked.uri) as cluster:
        assert cluster.databases()
