"""A reserved port: no other process gets it, no server answers there, and its own server can listen again and again."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from support.clusters.fluss_server import login_servers, tablet_server_address, zookeeper_address
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


def bind(port: int, *, reuse: bool) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
    server.bind(("127.0.0.1", port))
    return server


def test_no_service_answers_at_a_held_port_and_no_other_program_gets_it() -> None:
    with HeldPort() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port.number), 5)
        with pytest.raises(OSError, match="in use") as raised, bind(port.number, reuse=False):
            pass
        assert raised.value.errno == errno.EADDRINUSE


def test_a_server_listens_on_its_held_port_again_after_it_ended() -> None:
    with HeldPort() as port:
        for _ in range(3):
            with bind(port.number, reuse=True) as server:
                server.listen()
                with socket.create_connection(("127.0.0.1", port.number), 5) as client, server.accept()[0] as accepted:
                    client.sendall(b"x")
                    assert accepted.recv(1) == b"x"


def test_the_ports_of_a_cluster_cannot_be_taken_before_it_starts(tmp_path: Path) -> None:
    cluster = LocalFlussCluster(tmp_path / "cluster", ClusterSettings(users={"ada": "x"}))
    addresses = (zookeeper_address(cluster), cluster.bootstrap_servers, login_servers(cluster), tablet_server_address(cluster, 0))
    try:
        for address in addresses:
            with pytest.raises(OSError, match="in use"):
                bind(int(address.rpartition(":")[2]), reuse=False)
    finally:
        cluster.close()
    for address in addresses:
        bind(int(address.rpartition(":")[2]), reuse=False).close()
