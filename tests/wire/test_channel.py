"""Addresses of services: IPv4, names and IPv6, from the user's text to the address where gRPC listens."""

from __future__ import annotations

import asyncio

import pytest

from support.services.served import OPTIONS
from support.worlds.coordinator_world import World
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.client import LakewardClient
from tiering.coordinator.server.serving import serve
from tiering.errors import InvalidArgument
from tiering.wire.channel import host_and_port, target


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("127.0.0.1", "127.0.0.1:7707"),
        ("lakeward://host.example:1/", "host.example:1"),
        ("[::1]:7708", "[::1]:7708"),
        ("[::1]", "[::1]:7707"),
        ("lakeward://[2001:db8::7]:443", "[2001:db8::7]:443"),
    ],
)
def test_a_uri_is_an_address(uri: str, address: str) -> None:
    assert target(uri) == address


@pytest.mark.parametrize("uri", ["::1", "::1:7707", "[::1", "::1]:7707", "[::1]7707", "host:0", "host:65536", "a b:1", "http://a:1", ""])
def test_another_text_is_refused_with_both_forms(uri: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        target(uri)
    assert "[::1]:7707" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("host", "address"),
    [("::1", "[::1]:5"), ("[::1]", "[::1]:5"), ("::", "[::]:5"), ("lake.example", "lake.example:5")],
)
def test_host_and_port_are_joined_so_that_they_can_be_parted(host: str, address: str) -> None:
    assert host_and_port(host, 5) == address
    assert target(address) == address


def test_localhost_is_one_address_because_another_program_may_have_the_port_at_the_other() -> None:
    assert target("localhost:5") == "127.0.0.1:5"
    assert target("LOCALHOST:5,[::1]:6") == "ipv6:[::ffff:127.0.0.1]:5,[::1]:6"


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_a_coordinator_on_ipv6_listens_on_the_port_that_it_was_given(host: str) -> None:
    """`::1:0` meant port 0 of nothing: gRPC took its own default, 443."""

    async def ask() -> tuple[str, int]:
        with HeldPort("::1") as held_port:
            server = await serve(World(options=OPTIONS).coordinator, host, held_port.number)
            try:
                with LakewardClient(server.address) as client:
                    await asyncio.to_thread(client.list_tiering_statuses)
                return server.address, held_port.number
            finally:
                await server.stop()

    address, port = asyncio.run(ask())
    assert address == f"[::1]:{port}"
