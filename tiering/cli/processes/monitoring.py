"""Where the long-running processes serve metrics and health, and which addresses they listen on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from tiering.access.loopback import is_loopback
from tiering.errors import SetupError
from tiering.telemetry.http_server import AccessOf, Check, TelemetryServer, everything
from tiering.telemetry.metrics import DEFAULT_TABLES


@dataclass(frozen=True)
class MonitoringSettings:
    """What the command line says. `port` None = nothing is served; 0 = a free one."""

    port: int | None = None
    host: str = "127.0.0.1"
    tables: int = DEFAULT_TABLES
    """With series of their own."""


@contextmanager
def monitoring(
    settings: MonitoringSettings, registry: CollectorRegistry, not_alive: Check, not_ready: Check, access_of: AccessOf = everything
) -> Iterator[None]:
    """Serves while the context is open, and prints where. Raises SetupError for a port that cannot be had."""
    if settings.port is None:
        yield
        return
    server = TelemetryServer(settings.host, settings.port, registry, not_alive, not_ready, access_of)
    print(f"lakeward metrics: {server.url}", flush=True)
    try:
        yield
    finally:
        server.close()


def check_host(host: str, insecure: bool, hint: str = "Listen on 127.0.0.1, or pass --insecure if the network is trusted.") -> None:
    """Off loopback only with --insecure, or where the service is protected otherwise (DESIGN 10). Raises SetupError with the hint."""
    if not insecure and not is_loopback(host):
        raise SetupError(f"refusing to listen on {host}: anyone who reaches that address could read and steer the tiering", hint=hint)
