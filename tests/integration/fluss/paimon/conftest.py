"""One real Fluss cluster whose lake is Paimon, for all tests of this folder; each makes tables of its own name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import FlinkTiering
from support.fluss_paimon.lake_files import LakeTable, PaimonFolder
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


@pytest.fixture
def tables(fluss_on_paimon: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss_on_paimon.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture
def lake(fluss_on_paimon: LocalFlussCluster) -> LakeTable:
    """The folder of the lake table of that name."""
    return lambda name: PaimonFolder.of(fluss_on_paimon.folder / "warehouse", "sales", name)


@pytest.fixture(scope="session")
def flink(fluss_on_paimon: LocalFlussCluster) -> Iterator[FlinkTiering]:
    with FlinkTiering(fluss_on_paimon.folder / "warehouse", fluss_on_paimon.logs / "flink-tiering.log") as tiering:
        yield tiering


@pytest.fixture
def second_flink(fluss_on_paimon: LocalFlussCluster, tmp_path: Path) -> Iterator[FlinkTiering]:
    """Another incarnation of the job."""
    with FlinkTiering(fluss_on_paimon.folder / "warehouse", tmp_path / "second-flink.log") as tiering:
        yield tiering
