"""Iceberg's own REST catalog server (its test fixtures), over a warehouse in S3. It listens on all addresses: nothing lets it choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from support.object_store.jars import class_path
from support.object_store.s3_server import BUCKET, REGION, S3Server
from support.running.processes import wait_for
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.java_process import JavaProcess

WAREHOUSE = f"s3://{BUCKET}/warehouse"
MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


@dataclass(frozen=True)
class RestCatalog:
    """One that runs. `vends`: whether it hands out the keys of the store with a table."""

    uri: str
    store: S3Server
    vends: bool
    process: JavaProcess

    @property
    def lake(self) -> dict[str, str]:
        """The properties of the lake that are no secrets."""
        return {"type": "rest", "uri": self.uri, "warehouse": WAREHOUSE, **self.store.place}

    @property
    def secrets(self) -> dict[str, str]:
        """Properties that a process of ours needs beside these."""
        return {} if self.vends else self.store.keys

    @property
    def all_properties(self) -> dict[str, str]:
        """All properties, including secrets."""
        return {**self.lake, **self.store.keys}


@contextmanager
def rest_catalog_server(folder: Path, store: S3Server, *, vends: bool) -> Iterator[RestCatalog]:
    """Runs a REST catalog whose tables are rows of a database in `folder`, and stops it by its process id."""
    held_port = HeldPort()
    settings = {
        "REST_PORT": str(held_port.number),
        "CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "WAREHOUSE": WAREHOUSE,
        "IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "S3_ENDPOINT": store.endpoint,
        "S3_PATH__STYLE__ACCESS": "true",
        "S3_ACCESS__KEY__ID": store.access_key,
        "S3_SECRET__ACCESS__KEY": store.secret_key,
        "CLIENT_REGION": REGION,
        "INCLUDE__CREDENTIALS": str(vends).lower(),
    }
    environment = {f"CATALOG_{name}": value for name, value in settings.items()}
    process = JavaProcess(class_path("iceberg_rest"), MAIN, (), folder / "rest-catalog.log", "320m", environment)
    process.start()
    uri = f"http://{held_port.address}"
    try:
        wait_for("the REST catalog", lambda: _answers(process, uri))
        yield RestCatalog(uri, store, vends, process)
    finally:
        process.stop()
        held_port.close()


def _answers(process: JavaProcess, uri: str) -> bool:
    process.check_running()
    try:
        return requests.get(f"{uri}/v1/config", timeout=60).ok
    except requests.ConnectionError:
        return False
