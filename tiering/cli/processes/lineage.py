"""Sends events of rounds to the OpenLineage endpoint of `--openlineage-url` (docs/openlineage.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from tiering.access.client_access import read_token
from tiering.access.loopback import stays_on_this_machine
from tiering.cli.terminal.options import LineageOptions
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import InvalidArgument
from tiering.telemetry.lineage_events import LineageNames, event_of, steps_of
from tiering.telemetry.lineage_sender import LineageEndpoint, LineageSender

_PATH = "/api/v1/lineage"
"""The path of the endpoint, as in OpenLineage's own clients."""
_API_KEY = "OPENLINEAGE_API_KEY"
"""Environment variable of OpenLineage's own clients."""


@contextmanager
def lineage(options: LineageOptions, fluss: str | None, coordinator: Coordinator, registry: CollectorRegistry) -> Iterator[None]:
    """Sends the events of the coordinator's rounds while the context is open, if the options name an endpoint.

    `fluss`: the servers of the Fluss cluster; None = the embedded cluster. Raises InvalidArgument, SetupError.
    """
    if options.url is None:
        yield
        return
    names = LineageNames(
        options.namespace,
        f"lakeward://{coordinator.cluster.cluster_id}" if fluss is None else f"fluss://{fluss.split(',')[0].strip()}",
        coordinator.options.public_lake_properties().get("warehouse"),
    )
    sender = LineageSender(endpoint(options), lambda step: event_of(step, names, coordinator.discovery.infos.get(step.row.table_id)))
    records = coordinator.table_records

    def changes_stored(changes: Sequence[Change]) -> None:
        if steps := steps_of(changes, records.get):
            sender.add(steps)

    records.changes_stored = changes_stored
    registry.register(sender)
    try:
        yield
    finally:
        sender.close()


def endpoint(options: LineageOptions) -> LineageEndpoint:
    """Returns the endpoint of the options. Raises InvalidArgument, and SetupError for a file without a key."""
    url, file = options.url or "", options.api_key_file
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidArgument(
            "--openlineage-url is not the address of an OpenLineage endpoint",
            hint=f"Write it as https://marquez.example:5000. {_PATH} is added to it; a key belongs into --openlineage-api-key-file.",
        )

    def key() -> str | None:
        return os.environ.get(_API_KEY) or None if file is None else read_token(file)

    if key() is not None and parts.scheme == "http" and not stays_on_this_machine(parts.hostname):
        raise InvalidArgument(
            f"the API key is not sent to {parts.hostname} in clear text", hint="Use an https address in --openlineage-url."
        )
    return LineageEndpoint(url.rstrip("/") + _PATH, key)
