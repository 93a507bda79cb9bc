"""The real Fluss cluster of the tests: the fixture `fluss` of tests/conftest.py boots it once, for the first test that asks."""

from __future__ import annotations

from support.clusters.fluss_plugin import no_tables_plugins
from tiering.cli.fluss_server.configuration import ClusterSettings

USER, PASSWORD = "ada", "Xq7-of-tests"
"""Who may use the listener that asks for a login."""
PROPERTIES = {
    "kv.snapshot.interval": "2s",
    "remote.log.task-interval-duration": "1s",
    "log.segment.file-size": "64kb",
    "log.index.interval-size": "1kb",
}
"""KV snapshots and remote log segments come within seconds, also of a few rows."""


def lake_settings(tablet_servers: int = 1) -> ClusterSettings:
    """A cluster whose tables may be tiered; lake tables are made by whoever tiers them."""
    return ClusterSettings(
        plugins_folder=no_tables_plugins(),
        lake={"type": "hadoop", "warehouse": "/nowhere"},
        tablet_servers=tablet_servers,
        users={USER: PASSWORD},
        server_properties=PROPERTIES,
    )
