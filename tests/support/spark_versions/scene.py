"""The service that all versions of Spark ask: a table with rows in the lake and in the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.running.cluster_of_processes import Deployment, started
from tiering.model.tables import TablePath

FLIGHTS = TablePath("demo", "flights")
IN_THE_LAKE, IN_THE_LOG = 100, 50


@contextmanager
def scene(folder: Path) -> Iterator[Deployment]:
    """Yields a service with `demo.flights`, whose newest rows are in the log alone."""
    with started(Deployment(folder), tierer=True) as service:
        service.create(FLIGHTS, freshness="1 h", buckets=2)
        service.append(FLIGHTS, 0, IN_THE_LAKE)
        service.lakeward("tier", str(FLIGHTS))
        service.append(FLIGHTS, IN_THE_LAKE, IN_THE_LOG)
        yield service
