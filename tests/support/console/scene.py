"""A service for tests of the console, with tables in the states that pages show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.lake_kinds.kinds import ICEBERG
from support.running.cluster_of_processes import KEYED, Deployment, rows, started
from support.running.processes import wait_for
from tiering.client import LakewardClient
from tiering.model.names import table_path

ORDERS, CUSTOMERS = table_path("sales", "orders"), table_path("sales", "customers")
TABLES = 5
TIERER = "tierer"
FAILED, PAUSED, FRESH = table_path("sales", "clicks"), table_path("hr", "people"), table_path("web", "visits")


@contextmanager
def varied_tables(folder: Path) -> Iterator[Deployment]:
    """Runs a coordinator and a tierer: two tables in the lake, one that fails, one that is paused, and one without rows."""
    with started(Deployment(folder), "--audit-log", str(folder / "audit.jsonl"), tierer=True) as deployment:
        for path in (ORDERS, FAILED, PAUSED, FRESH):
            deployment.create(path, freshness="2 s" if path in (ORDERS, FAILED) else "1 h")
        deployment.create_keyed(CUSTOMERS, "2 s")
        for path in (ORDERS, FAILED):
            deployment.append(path, 0, 30)
        with deployment.cluster() as cluster:
            cluster.upsert(CUSTOMERS, rows(0, 20).cast(KEYED), "test-customers", 0)
        with LakewardClient(deployment.uri) as client:
            wait_for("the coordinator knows the tables", lambda: len(client.list_tiering_statuses()) == TABLES)
            client.pause_tiering(PAUSED, reason="until the audit ends")
        for path in (ORDERS, FAILED, CUSTOMERS):
            deployment.wait_tiered(path)
        deployment.by_hand(ICEBERG).drop(FAILED)
        deployment.append(FAILED, 30, 30)
        wait_for(f"{FAILED} fails", lambda: deployment.status(FAILED).status == "Failed")
        yield deployment
