"""Generates the configuration files of a Fluss cluster on this machine. All servers listen on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tiering.cli.fluss_server.held_ports import LOOPBACK

LOGIN_LISTENER = "LOGIN"
"""Name of the listener that asks for a password. It exists only in a cluster with users."""
TICK_MS = 1_000
"""Tick of ZooKeeper. A session lasts at least two ticks."""
SESSION_TIMEOUT = "6s"
"""Time after which the cluster notices a killed server. Fluss's default of a minute is long for a demo; a shorter time ends sessions on a
busy machine."""


@dataclass(frozen=True)
class ClusterSettings:
    """Settings of the cluster."""

    plugins_folder: Path | None = None
    """FLUSS_PLUGINS_DIR of the coordinator. None: the cluster has no lake plugin and no lake."""
    lake: Mapping[str, str] = field(default_factory=dict)
    """Properties of the lake catalog, without the prefix `datalake.iceberg.` (or of another format)."""
    tablet_servers: int = 1
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by user. If there are users, every server has a second listener that asks for a password (SASL/PLAIN)."""
    server_properties: Mapping[str, str] = field(default_factory=dict)
    """More properties in the server.yaml of every server."""
    lake_format: str = "iceberg"
    """Name of the lake format in the plugin."""


@dataclass(frozen=True)
class ServerPorts:
    """Ports of one Fluss server. `login` is None without users."""

    plain: int
    login: int | None = None


def zookeeper_configuration(data: Path, port: int) -> str:
    """Returns the text of zoo.cfg."""
    return f"dataDir={data}\nclientPort={port}\nclientPortAddress={LOOPBACK}\ntickTime={TICK_MS}\nadmin.enableServer=false\n"


def server_configuration(
    settings: ClusterSettings, folder: Path, zookeeper_port: int, ports: ServerPorts, tablet_server_id: int | None
) -> str:
    """Returns the text of server.yaml for the coordinator, or for the tablet server with this id. `folder` is the folder of the cluster."""
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
    return "".join(f"{key}: {value}\n" for key, value in properties.items())  # Fluss reads lines instead of YAML, and would keep quotes


def _login_properties(users: Mapping[str, str]) -> dict[str, str]:
    entries = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    return {
        "security.protocol.map": f"FLUSS:PLAINTEXT,{LOGIN_LISTENER}:SASL",
        "internal.listener.name": "FLUSS",
        "security.sasl.enabled.mechanisms": "PLAIN",
        "security.sasl.plain.jaas.config": f"org.apache.fluss.security.auth.sasl.plain.PlainLoginModule required {entries};",
    }
