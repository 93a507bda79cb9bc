"""A service in its first minute: before the first round Spark opens the lake's catalog, and a table has the rows of its log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from support.running.cluster_of_processes import Deployment


def test_a_started_service_has_the_tables_of_its_lake_catalog(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    try:
        deployment.start_coordinator()
        with sqlite3.connect(deployment.data.lake_catalog_file) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"iceberg_tables", "iceberg_namespace_properties"} <= names
        deployment.kill_coordinator()
        deployment.start_coordinator()
    finally:
        deployment.close()
