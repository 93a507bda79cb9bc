"""The configuration files of a Fluss cluster on this machine: each value in one place, every server on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tiering.cli.fluss_server.held_ports import LOOPBACK

LOGIN_LISTENER = "LOGIN"
"""Name of the listener that asks for a password; there only with users."""
TICK_MS = 1_000
"""ZooKeeper's; a session lasts two of them at least."""
SESSION_TIMEOUT = "6s"
"""After which a killed server is missed. Fluss's default of a minute is long for a demo; shorter ones end on a busy machine."""


@dataclass(frozen=True)
class ClusterSettings:
    """What kind of cluster it is."""

    plugins_folder: Path | None = None
    """FLUSS_PLUGINS_DIR of the coordinator; None = it has no lake plugin, and no lake."""
    lake: Mapping[str, str] = field(default_factory=dict)
    """Properties of the lake catalog, without the prefix `datalake.iceberg.` (or of another format)."""
    tablet_servers: int = 1
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by user. With any, every server has a second listener that asks for them (SASL/PLAIN)."""
    server_properties: Mapping[str, str] = field(default_factory=dict)
    """More of server.yaml, for every server."""
    lake_format: str = "iceberg"
    """What the lake plugin calls itself."""


@dataclass(frozen=True)
class ServerPorts:
    """Of one Fluss server. `login` is None without users."""

    plain: int
    login: int | None = None


def zookeeper_configuration(data: Path, port: int) -> str:
    """The text of zoo.cfg."""
    return f"dataDir={data}\nclientPort={port}\nclientPortAddress={LOOPBACK}\ntickTime={TICK_MS}\nadmin.enableServer=false\n"


def server_configuration(
    settings: ClusterSettings, folder: Path, zookeeper_port: int, ports: ServerPorts, tablet_server_id: int | None
) -> str:
    """The text of server.yaml for the coordinator, or for a tablet server with an id. `folder` is the cluster's."""
    name = "coordinator" if tablet_server_id is None else f"tablet-{tablet_server_id}"
    properties = {
        "zookeeper.address": f"{LOOPBACK}:{zookeeper_port}",
        "zookeeper.client.session-timeout": SESSION_TIMEOUT,
        "bind.listeners": f"FLUSS://{LOOPBACK}:{ports.plain}",
        "data.dir": str(folder / "data" / name),
        "remote.data.dir": str(folder / "remote"),
        "default.bucket.number": "1",
        "default.replication.factor": "1",
    }
    if tablet_server_id is not None:
        properties["tablet-server.id"] = str(tablet_server_id)
    if settings.plugins_folder is not None:
        properties["datalake.format"] = settings.lake_format
        properties |= {f"datalake.{settings.lake_format}.{key}": value for key, value in settings.lake.items()}
    if settings.users:
        properties["bind.listeners"] += f",{LOGIN_LISTENER}://{LOOPBACK}:{ports.login}"
        properties |= _login_properties(settings.users)
    properties |= settings.server_properties
    return "".join(f"{key}: {value}\n" for key, value in properties.items())  # Fluss reads lines, not YAML: it would keep quotes


def _login_properties(users: Mapping[str, str]) -> dict[str, str]:
    entries = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    return {
        "security.protocol.map": f"FLUSS:PLAINTEXT,{LOGIN_LISTENER}:SASL",
        "internal.listener.name": "FLUSS",
        "security.sasl.enabled.mechanisms": "PLAIN",
        "security.sasl.plain.jaas.config": f"org.apache.fluss.security.auth.sasl.plain.PlainLoginModule required {entries};",
    }
