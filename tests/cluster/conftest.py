"""Fixtures for the embedded cluster: every shared behaviour is seen in process and over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.clusters.embedded import EmbeddedCluster, ManualClock, served
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage


@dataclass
class Bench:
    """A storage, the face under test (itself, or a client of it), and its clock."""

    storage: EmbeddedStorage
    cluster: EmbeddedCluster
    clock: ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedStorage]:
    with EmbeddedStorage(tmp_path / "cluster", clock, RandomIds()) as opened:
        yield opened


@pytest.fixture(params=["in process", "remote"])
def bench(request: pytest.FixtureRequest, storage: EmbeddedStorage, clock: ManualClock) -> Iterator[Bench]:
    if request.param == "in process":
        yield Bench(storage, storage, clock)
    else:
        with served(storage) as remote:
            yield Bench(storage, remote, clock)


@pytest.fixture
def cluster(bench: Bench) -> EmbeddedCluster:
    return bench.cluster
