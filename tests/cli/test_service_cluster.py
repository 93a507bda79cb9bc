"""The cluster of a service is opened by the kind that the service names, and written to where that kind can be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing

import pytest

from support.running.cluster_of_processes import Deployment
from tiering.cli.service_cluster import service_cluster, writable_cluster
from tiering.cluster import registry
from tiering.cluster.registry import ClusterAddress
from tiering.errors import ServiceUnreachable, SetupError


class OtherCluster:
    """The view of a cluster that a test knows."""

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self.closed = False

    def close(self) -> None:
        self.closed = True


class OtherKind:
    """A `ClusterKind` as commands use it."""

    def connect(self, address: ClusterAddress) -> OtherCluster:
        return OtherCluster(address)

    def open_writer(self, address: ClusterAddress) -> AbstractContextManager[OtherCluster]:
        return closing(OtherCluster(address))


OTHER_KIND = OtherKind()


@pytest.fixture
def other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's cluster is opened by `OTHER_KIND`."""
    monkeypatch.setattr(registry, "BUILT_IN", {registry.EMBEDDED: f"{__name__}:OTHER_KIND"})


def test_the_cluster_is_the_services_own(stocked: Deployment) -> None:
    with writable_cluster(stocked.uri) as cluster, stocked.cluster() as own:
        assert cluster.cluster_id == own.cluster_id
        assert [str(table.path) for table in cluster.tables("sales")] == ["sales.orders"]


@pytest.mark.parametrize("opening", [service_cluster, writable_cluster])
def test_the_kind_gets_the_address_and_its_cluster_is_closed(
    stocked: Deployment, other_kind: None, opening: Callable[[str], AbstractContextManager[object]]
) -> None:
    with stocked.cluster() as own:
        cluster_id = own.cluster_id
    with opening(stocked.uri) as cluster:
        assert isinstance(cluster, OtherCluster)
        assert (cluster.address, cluster.closed) == (ClusterAddress(stocked.uri, cluster_id), False)
    assert cluster.closed


def test_what_cannot_be_opened_says_why(stocked: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServiceUnreachable), service_cluster("127.0.0.1:1"):
        pass
    with monkeypatch.context() as patched:
        patched.setattr(registry, "BUILT_IN", {})
        with pytest.raises(SetupError, match="no cluster of kind 'embedded'"), service_cluster(stocked.uri):
            pass
    with writable_cluster(stocked.uri) as cluster:
        assert cluster.databases()
