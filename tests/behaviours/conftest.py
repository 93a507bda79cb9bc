"""Each story is told of every backend that can tell it; tests/conftest.py prints which stories are left out, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.behaviours.backends import (
    EMBEDDED,
    FLUSS,
    FLUSS_WITH_ITS_LAKE,
    LACKS,
    OTHER_KINDS,
    Backend,
    EmbeddedBackend,
    FlussBackend,
    OtherKindBackend,
    fluss_backend,
)
from support.behaviours.deployment import Deployment
from support.clusters.fluss_server import PROPERTIES
from support.depth import SOAKS, taking_turns, turn_of
from support.running.fluss_health import watched
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import plugins_folder
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster

FLUSS_STORIES, FLUSS_STORIES_WITH_ITS_LAKE = (6, 4) if SOAKS else (3, 3)
"""Fewer than of the embedded cluster, which has the rare ones: each makes a table of its own on a cluster with two cores."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with `backend` is run with each backend that lacks nothing of what its mark `needs` names, unless it chooses itself."""
    chosen = any("backend" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "backend" in metafunc.fixturenames and not chosen:
        needs = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
        names = [name for name, lacks in LACKS.items() if not needs & lacks]
        everywhere = metafunc.definition.get_closest_marker("every_backend")
        backends = names if everywhere else taking_turns(names, turn_of(metafunc.function), alike)
        metafunc.parametrize("backend", backends, indirect=True, scope="session")


def alike(name: str) -> str:
    """Features that a backend shares with others: in CI the backends take turns, and each story runs with one of them."""
    if name == EMBEDDED:
        return name
    return "other lakes" if name in OTHER_KINDS else "real Fluss"


@pytest.fixture(scope="session")
def fluss_without_lake_tables(fluss: LocalFlussCluster) -> Iterator[FlussBackend]:
    """A Fluss whose coordinator has the tests' plugin, which creates no lake table: the first round does."""
    with fluss_backend(FLUSS, fluss.bootstrap_servers, FLUSS_STORIES) as backend:
        yield backend


@pytest.fixture(scope="session")
def fluss_with_its_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlussBackend]:
    """A Fluss whose coordinator has Fluss's own Iceberg plugin, which creates each lake table with its table."""
    folder = tmp_path_factory.mktemp("fluss-with-its-lake")
    lake = {"type": "hadoop", "warehouse": str(folder / "warehouse")}
    (folder / "warehouse").mkdir()
    settings = ClusterSettings(plugins_folder(), lake, server_properties=PROPERTIES)
    with (
        local_cluster(folder / "cluster", settings) as cluster,
        watched(cluster),
        fluss_backend(FLUSS_WITH_ITS_LAKE, cluster.bootstrap_servers, FLUSS_STORIES_WITH_ITS_LAKE, lake) as backend,
    ):
        yield backend


FIXTURES = {FLUSS: "fluss_without_lake_tables", FLUSS_WITH_ITS_LAKE: "fluss_with_its_lake"}


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == EMBEDDED:
        return EmbeddedBackend()
    if request.param in OTHER_KINDS:
        return OtherKindBackend(request.param)
    backend: Backend = request.getfixturevalue(FIXTURES[request.param])
    return backend


@pytest.fixture
def deployment(backend: Backend, tmp_path: Path) -> Iterator[Deployment]:
    """A cluster, a lake, a coordinator and a tierer, with a database of their own."""
    deployment = Deployment(tmp_path, backend)
    try:
        yield deployment
    finally:
        deployment.close()
