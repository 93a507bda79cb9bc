"""Which address and which login lead to a cluster, and what is said of those that do not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest

from support.clusters.fluss_server import PASSWORD, USER, login_servers, tablet_server_address, zookeeper_address
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.settings import PASSWORD_VARIABLE, FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import LEASES
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterAccessDenied, ClusterUnavailable, InvalidArgument, SetupError, UnknownTable
from tiering.rpc.fluss import fluss_pb2 as pb

from .conftest import Opened

PATH = pb.PbTablePath(database_name="nowhere", table_name="nothing")


def test_the_coordinator_is_found_from_a_tablet_servers_port(fluss: LocalFlussCluster, opened: Opened) -> None:
    client = opened(FlussConnection.parse(tablet_server_address(fluss, 0)))

    assert client.coordinator(pb.LakeTieringHeartbeatRequest()).coordinator_epoch >= 0
    assert str(client.servers().coordinator) == fluss.bootstrap_servers


def test_a_server_that_is_down_does_not_matter_beside_another(fluss: LocalFlussCluster, opened: Opened) -> None:
    with HeldPort() as closed:
        client = opened(FlussConnection.parse(f"{closed.address},{fluss.bootstrap_servers}"))

        assert list(client.servers().tablet_servers) == [0]


def test_a_fluss_of_this_version_has_leases(client: FlussClient) -> None:
    assert client.offers(*LEASES)


def test_an_error_has_the_servers_own_message(client: FlussClient) -> None:
    with pytest.raises(UnknownTable, match=r"^Table 'nowhere.nothing' does not exist. \(Fluss error 7\)$"):
        client.coordinator(pb.GetTableInfoRequest(table_path=PATH))


def test_many_threads_share_one_connection_and_get_their_own_answers(fluss: LocalFlussCluster, client: FlussClient) -> None:
    def missing(number: int) -> str:
        with pytest.raises(UnknownTable) as raised:
            client.coordinator(pb.GetTableInfoRequest(table_path=pb.PbTablePath(database_name="nowhere", table_name=f"t{number}")))
        return raised.value.message

    before = set(threading.enumerate())
    with ThreadPoolExecutor(16) as pool:
        messages = list(pool.map(missing, range(200)))

    assert messages == [f"Table 'nowhere.t{number}' does not exist. (Fluss error 7)" for number in range(200)]
    readers = [thread for thread in set(threading.enumerate()) - before if thread.name == f"fluss-{fluss.bootstrap_servers}"]
    assert len(readers) == 1


def test_a_login_opens_the_listener_that_asks_for_one(fluss: LocalFlussCluster, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    client = opened(FlussConnection.parse(login_servers(fluss), USER))

    assert str(client.servers().coordinator) == login_servers(fluss)
    assert client.coordinator(pb.LakeTieringHeartbeatRequest()).coordinator_epoch >= 0


def test_a_wrong_password_is_said_and_never_shown(fluss: LocalFlussCluster, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "Zr4-is-wrong")

    with pytest.raises(ClusterAccessDenied, match="Invalid username or password") as raised:
        opened(FlussConnection.parse(login_servers(fluss), USER)).coordinator(pb.ListDatabasesRequest())
    assert PASSWORD_VARIABLE in raised.value.hint
    assert raised.value.ids["user"] == USER
    assert "Zr4" not in str(raised.value) + raised.value.hint + str(raised.value.ids)


def test_a_user_without_a_password_is_sent_nowhere(fluss: LocalFlussCluster, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)

    with pytest.raises(SetupError, match="no password for the Fluss user 'ada'") as raised:
        opened(FlussConnection.parse(login_servers(fluss), USER)).coordinator(pb.ListDatabasesRequest())
    assert PASSWORD_VARIABLE in raised.value.hint


def test_a_listener_that_asks_for_a_login_refuses_who_has_none(fluss: LocalFlussCluster, opened: Opened) -> None:
    with pytest.raises(ClusterAccessDenied, match="not completed authentication") as raised:
        opened(FlussConnection.parse(login_servers(fluss))).coordinator(pb.ListDatabasesRequest())
    assert PASSWORD_VARIABLE in raised.value.hint


def test_a_login_where_none_is_asked_for_is_refused(fluss: LocalFlussCluster, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)

    with pytest.raises(ClusterAccessDenied, match="protocol of server is 'PLAINTEXT'") as raised:
        opened(FlussConnection.parse(fluss.bootstrap_servers, USER)).coordinator(pb.ListDatabasesRequest())
    assert "whether this listener of the cluster requires a login" in raised.value.hint


def test_zookeepers_port_is_told_from_a_fluss_server(fluss: LocalFlussCluster, opened: Opened) -> None:
    zookeeper = zookeeper_address(fluss)
    client = opened(FlussConnection.parse(zookeeper))

    with pytest.raises(ClusterUnavailable, match=f"{zookeeper} accepts connections, but does not answer like a Fluss server"):
        client.coordinator(pb.ListDatabasesRequest())


@contextmanager
def http_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def grpc_service() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@contextmanager
def silent_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def closed_port() -> Iterator[str]:
    with HeldPort() as held_port:
        yield held_port.address


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (closed_port, "no Fluss server answers at {}: Connection refused"),
        (silent_server, "{} accepts connections, but does not answer like a Fluss server: no answer came in time"),
        (grpc_service, "{} is not a Fluss server but an HTTP/2 server, such as a gRPC service"),
    ],
)
def test_what_answers_at_a_wrong_port_is_said(server: type, text: str, opened: Opened) -> None:
    with server() as address:
        client = opened(FlussConnection((address,), connect_timeout_s=1))

        with pytest.raises(ClusterUnavailable) as raised:
            client.coordinator(pb.ListDatabasesRequest())
    assert raised.value.message == text.format(address)
    assert "port" in raised.value.hint


def test_a_foreign_server_does_not_matter_beside_a_right_one(fluss: LocalFlussCluster, opened: Opened) -> None:
    with grpc_service() as address:
        client = opened(FlussConnection((address, fluss.bootstrap_servers)))

        assert list(client.servers().tablet_servers) == [0]


def test_an_http_server_at_a_wrong_port_is_said(opened: Opened) -> None:
    with http_server() as address, pytest.raises(ClusterUnavailable) as raised:
        opened(FlussConnection((address,), connect_timeout_s=1)).coordinator(pb.ListDatabasesRequest())
    assert raised.value.message.startswith(f"{address} ")
    assert "port" in raised.value.hint


def test_all_servers_that_do_not_answer_are_named(opened: Opened) -> None:
    with (
        closed_port() as first,
        closed_port() as second,
        pytest.raises(ClusterUnavailable, match=f"no server of the Fluss cluster answers: .*{first}.*{second}"),
    ):
        opened(FlussConnection.parse(f"{first},{second}")).coordinator(pb.ListDatabasesRequest())


@pytest.mark.parametrize("text", ["", "host", "host:", ":9123", "host:0", "host:65536", "host:x", "a:b:1", "host:²"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is not the address|no server"):
        FlussConnection.parse(text)


def test_addresses_are_read_as_they_are_written() -> None:
    assert FlussConnection.parse("a:1, [::1]:9123 ").bootstrap == (ServerAddress("a", 1), ServerAddress("::1", 9123))
    assert str(ServerAddress("::1", 9123)) == "[::1]:9123"
