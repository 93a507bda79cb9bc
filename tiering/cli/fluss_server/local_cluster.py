"""A Fluss cluster on this machine: ZooKeeper, a coordinator and tablet servers, as processes that can be killed and started again."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tiering.cli.fluss_server.configuration import (
    ClusterSettings,
    ServerPorts,
    server_configuration,
    zookeeper_configuration,
)
from tiering.cli.fluss_server.held_ports import LOOPBACK, HeldPort
from tiering.cli.fluss_server.jars import server_class_path
from tiering.cli.fluss_server.java_process import JavaProcess
from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError, SetupError
from tiering.rpc.fluss import fluss_pb2 as pb

READY_SECONDS = 120.0
"""A start takes some 10 s. A second coordinator waits until the session of a killed one ends."""
_LOOK_SECONDS = 0.1
_ZOOKEEPER = "org.apache.fluss.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
_COORDINATOR = "org.apache.fluss.server.coordinator.CoordinatorServer"
_TABLET_SERVER = "org.apache.fluss.server.tablet.TabletServer"


class LocalFlussCluster:
    """The processes of one cluster. They write only to `folder`, and their logs to `folder/logs`."""

    def __init__(self, folder: Path, settings: ClusterSettings | None = None) -> None:
        """Writes the configuration and holds the ports until `close`. Starts nothing. Raises SetupError if the jars or Java are missing."""
        self.folder = folder.absolute()
        self.settings = settings or ClusterSettings()
        self._class_path = server_class_path()
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        ids = range(self.settings.tablet_servers)
        self._held_ports = [HeldPort() for _ in range(1 + 2 * (1 + len(ids)))]
        zookeeper_port, *ports = (port.number for port in self._held_ports)
        pairs = [ServerPorts(plain, login) for plain, login in zip(ports[::2], ports[1::2], strict=True)]
        self.zookeeper_server = ServerAddress(LOOPBACK, zookeeper_port)
        self.coordinator_ports, self.tablet_ports = pairs[0], dict(zip(ids, pairs[1:], strict=True))
        self.zookeeper = self._prepared_zookeeper()
        self.coordinator = self._prepared("coordinator", _COORDINATOR, self.coordinator_ports, None)
        self.tablet_servers: Mapping[int, JavaProcess] = MappingProxyType(
            {number: self._prepared(f"tablet-{number}", _TABLET_SERVER, ports, number) for number, ports in self.tablet_ports.items()}
        )

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of the coordinator's listener without a login."""
        return str(ServerAddress(LOOPBACK, self.coordinator_ports.plain))

    @property
    def server_yaml(self) -> Path:
        """The server.yaml of the coordinator, which names the lake, for `--fluss-conf`."""
        return self._server_yaml("coordinator")

    def start(self) -> None:
        """Starts all processes and waits until the cluster is ready. Raises SetupError with the log of a process that ended."""
        self.zookeeper.start()
        self._wait_for_zookeeper(time.monotonic() + READY_SECONDS)
        for process in (self.coordinator, *self.tablet_servers.values()):
            process.start()
        self.wait_ready()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Waits until the coordinator answers a heartbeat and knows all running tablet servers, and these answer.

        Raises SetupError with the reason after `seconds`, or at once if a server ended by itself.
        """
        deadline = time.monotonic() + seconds
        client = FlussClient(FlussConnection.parse(self.bootstrap_servers))
        try:
            while (reason := self._not_ready(client)) is not None:
                if time.monotonic() > deadline:
                    raise SetupError(f"the Fluss cluster was not ready after {seconds:g} s: {reason}", hint=f"The logs are in {self.logs}.")
                time.sleep(_LOOK_SECONDS)
        finally:
            client.close()

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def close(self) -> None:
        """Stops the cluster and releases its ports."""
        self.stop()
        for port in self._held_ports:
            port.close()

    def stop(self) -> None:
        """Stops all running processes, ZooKeeper last."""
        for process in (*self.tablet_servers.values(), self.coordinator, self.zookeeper):
            if process.is_running:
                process.stop()

    def _not_ready(self, client: FlussClient) -> str | None:
        running = {number for number, process in self.tablet_servers.items() if process.is_running}
        self.coordinator.check_running()
        for process in self.tablet_servers.values():
            if process.has_failed:
                process.check_running()
        try:
            client.coordinator(pb.LakeTieringHeartbeatRequest())
            listed = client.servers().tablet_servers
            missing = running - set(listed)
            for number in running - missing:
                client.missing(listed[number])  # a restarted server counts as present while the session of the dead process lasts
        except LakewardError as error:
            return error.message
        return f"the coordinator does not list tablet server {min(missing)} yet" if missing else None

    def _wait_for_zookeeper(self, deadline: float) -> None:
        while True:
            self.zookeeper.check_running()
            try:
                socket.create_connection((self.zookeeper_server.host, self.zookeeper_server.port), 1).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise SetupError(
                        f"ZooKeeper does not answer: {error}", hint=f"The log of ZooKeeper is {self.zookeeper.log}."
                    ) from error
            time.sleep(_LOOK_SECONDS)

    def _prepared_zookeeper(self) -> JavaProcess:
        file = self.folder / "conf" / "zoo.cfg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(zookeeper_configuration(self.folder / "data" / "zookeeper", self.zookeeper_server.port))
        return JavaProcess(self._class_path, _ZOOKEEPER, (str(file),), self.logs / "zookeeper.log", "128m", {})

    def _prepared(self, name: str, main: str, ports: ServerPorts, tablet_server_id: int | None) -> JavaProcess:
        file = self._server_yaml(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(server_configuration(self.settings, self.folder, self.zookeeper_server.port, ports, tablet_server_id))
        plugins = self.settings.plugins_folder
        environment = {} if plugins is None else {"FLUSS_PLUGINS_DIR": str(plugins)}
        return JavaProcess(self._class_path, main, ("--configDir", str(file.parent)), self.logs / f"{name}.log", "512m", environment)

    def _server_yaml(self, name: str) -> Path:
        return self.folder / "conf" / name / "server.yaml"


@contextmanager
def local_cluster(folder: Path, settings: ClusterSettings | None = None) -> Iterator[LocalFlussCluster]:
    """Starts a cluster, yields it when it is ready, and closes it afterwards."""
    cluster = LocalFlussCluster(folder, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
