"""A Trino server on a port of the loopback interface, which reads the tables of a lake through a REST catalog."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import requests
from pyiceberg.catalog import load_catalog

from support.running.processes import wait_for
from support.running.rest_catalog import rest_catalog
from tiering.cli.fluss_server.held_ports import HeldPort

START_SECONDS = 240
SETTINGS = {
    "node.properties": "node.environment=test\nnode.bind-ip=127.0.0.1\nnode.internal-address=127.0.0.1",
    "jvm.config": "-Xmx1500m",
    "config.properties": """
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
plugin.dir={folder}/plugins
""",
    "catalog/lake.properties": """
connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={rest_uri}
iceberg.rest-catalog.view-endpoints-enabled=false
fs.hadoop.enabled=true
""",
}
"""The files of the folder `etc`. `fs.hadoop.enabled` lets Trino read files of this machine. The REST catalog of the tests has no views."""


@contextmanager
def trino_server(installation: Path, java_home: Path, lake_properties: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yields the URI of a server whose catalog `lake` has the tables that the lake has now.

    `installation`: an unpacked trino-server; `java_home`: a JDK that it accepts; `folder`: an empty one for its files.
    """
    with rest_catalog(folder) as rest_uri:
        _register_tables(lake_properties, rest_uri)
        held_port = HeldPort()
        for name, text in SETTINGS.items():
            file = folder / "etc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.format(port=held_port.number, rest_uri=rest_uri, folder=folder))
        (folder / "plugins").mkdir()
        (folder / "plugins" / "iceberg").symlink_to(installation.resolve() / "plugin" / "iceberg")
        options = ["-etc-dir", folder / "etc", "-data-dir", folder, "-jvm-dir", java_home]
        with (folder / "trino.log").open("wb") as log:
            server = subprocess.Popen([installation / "bin" / "launcher", *options, "run"], stdout=log, stderr=log)
        uri = f"http://{held_port.address}"
        try:
            wait_for("Trino", lambda: _has_started(server, uri, folder / "trino.log"), START_SECONDS)
            yield uri
        finally:
            server.terminate()
            server.wait(60)
            held_port.close()


def _register_tables(lake_properties: Mapping[str, str], rest_uri: str) -> None:
    lake, rest_catalog = load_catalog("lake", **lake_properties), load_catalog("rest", type="rest", uri=rest_uri)
    for namespace in lake.list_namespaces():
        rest_catalog.create_namespace(namespace)
        for name in lake.list_tables(namespace):
            rest_catalog.register_table(name, lake.load_table(name).metadata_location)


def _has_started(server: subprocess.Popen[bytes], uri: str, log: Path) -> bool:
    assert server.poll() is None, log.read_text()[-2_000:]
    try:
        return requests.get(f"{uri}/v1/info", timeout=60).json()["starting"] is False
    except requests.RequestException:
        return False
