"""All checks, in the order in which a first start would meet their problems."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tiering.cli.doctor import fluss, machine
from tiering.cli.doctor.findings import Check
from tiering.cli.doctor.service import Service, policies
from tiering.cli.terminal.lake_options import NamedLake


def all_checks(
    service: Service, data: Path, spark: bool, fluss_servers: str | None = None, lake: NamedLake | None = None, policy: Path | None = None
) -> Iterator[tuple[str, Check]]:
    """Yields the checks with their names. `spark` also starts Spark. `fluss_servers` names a Fluss cluster, whose lake is `lake`."""
    yield "python", machine.python
    yield "java", machine.java
    yield "plugin", machine.plugin
    yield "spark", machine.spark
    yield "data folder", lambda: machine.data_folder(data)
    yield "temporary files", machine.temporary_folder
    yield "port", service.port
    yield "service", service.reachable
    yield "lake", lambda: service.lake(data)
    yield "proof key", service.proof_key
    yield "grants", lambda: policies(service, policy)
    if fluss_servers is not None:
        yield fluss.CHECK, fluss.packages
        yield fluss.CHECK, lambda: fluss.cluster_servers(fluss_servers)
        if lake is not None:
            yield fluss.LAKE, lambda: fluss.lake_of_cluster(fluss_servers, lake)
        yield fluss.SHARING, lambda: fluss.shared_lake(service.lake_properties() if lake is None else lake.properties)
    if spark:
        yield "sql", lambda: machine.spark_reads(service.uri)
