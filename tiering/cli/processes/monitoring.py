"""Serves metrics and health pages of long-running processes, and checks the addresses that they listen on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from tiering.access.loopback import is_loopback
from tiering.cli.terminal.options import MetricsAddress
from tiering.errors import SetupError
from tiering.telemetry.http_server import AccessOf, Check, TelemetryServer, everything


@contextmanager
def monitoring(
    address: MetricsAddress, registry: CollectorRegistry, not_alive: Check, not_ready: Check, access_of: AccessOf = everything
) -> Iterator[None]:
    """Serves the pages while the context is open, and prints their address. Raises SetupError for a port that cannot be used."""
    if address.port is None:
        yield
        return
    server = TelemetryServer(address.host, address.port, registry, not_alive, not_ready, access_of)
    print(f"lakeward metrics: {server.url}", flush=True)
    try:
        yield
    finally:
        server.close()


def check_host(host: str, insecure: bool, hint: str = "Listen on 127.0.0.1, or add --insecure in a trusted network.") -> None:
    """Raises SetupError with the hint for an address other than loopback without `insecure` (DESIGN 10)."""
    if not insecure and not is_loopback(host):
        raise SetupError(
            f"refusing to listen on {host}: every program that reaches this address could read and control the tiering", hint=hint
        )
