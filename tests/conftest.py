"""Fixtures of all tests: servers that take long to start, the depth of tests (support/depth.py), and their order (support/dealt_out.py)."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.dealt_out import ByFixture, folders_in_memory, is_integration, long_ones_first
from support.depth import SOAKS, left_to_the_soak, load_profile
from support.running.fluss_health import AGAIN, asks_fluss
from support.spark.class_archive import QUICK_JVM, archive_options
from support.stages.make_test import MARK, is_in_make_test

if TYPE_CHECKING:
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from support.clusters.fluss_tables import FlussTables
    from support.object_store.rest_server import RestCatalog
    from support.object_store.s3_server import S3Server
    from support.worlds.lake_world import LakeWorld
    from tiering.cli.fluss_server.local_cluster import LocalFlussCluster

folders_in_memory()
load_profile()

# The rewritten asserts of pytest are kept for the next stage, also if PYTHONDONTWRITEBYTECODE is set: 12 CPU s per worker.
sys.dont_write_bytecode = False

# For every Spark that a test or one of its processes starts. Who names another collector or compiler gets that one.
# None fetches a jar: there is no place where Ivy could put one (`spark.jars.packages` fails, also where Ivy's own folder has them).
NO_IVY = "-Divy.home=/dev/null/ivy"
os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', QUICK_JVM)} {archive_options()} {NO_IVY}"

# Services that tests start put their owner's tokens there, and not into the folder of who runs the tests.
os.environ["LAKEWARD_HOME"] = tempfile.mkdtemp(prefix="lakeward-home-")
atexit.register(shutil.rmtree, os.environ["LAKEWARD_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_umask() -> Iterator[None]:
    """A test that runs a service in this process leaves no other one with private files."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    """An embedded cluster with its coordinator and a lake, in this process."""
    from support.worlds.lake_world import LakeWorld

    world = LakeWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture(scope="session")
def fluss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlussCluster]:
    """A real Fluss cluster whose tables can be tiered. Fails, and is not skipped, where its jars are not there."""
    from support.clusters.fluss_server import lake_settings
    from support.running.fluss_health import watched
    from tiering.cli.fluss_server.local_cluster import local_cluster

    with local_cluster(tmp_path_factory.mktemp("fluss"), lake_settings()) as cluster, watched(cluster):
        yield cluster


@pytest.fixture
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    """Makes tables in that cluster, and writes to them."""
    from support.clusters.fluss_tables import FlussTables

    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture(scope="session")
def fluss_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlussCluster]:
    """A cluster with two tablet servers, for tests that kill them; each test leaves all of them running."""
    from support.clusters.fluss_server import lake_settings
    from support.running.fluss_health import watched
    from tiering.cli.fluss_server.local_cluster import local_cluster

    with local_cluster(tmp_path_factory.mktemp("fluss-of-two"), lake_settings(tablet_servers=2)) as cluster, watched(cluster):
        yield cluster


@pytest.fixture(scope="session")
def fluss_on_paimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlussCluster]:
    """A real Fluss cluster with Fluss's own plugin for Paimon, which makes the lake tables in `folder/warehouse`."""
    from support.fluss_paimon.plugin import paimon_settings
    from support.running.fluss_health import watched
    from tiering.cli.fluss_server.local_cluster import local_cluster

    folder = tmp_path_factory.mktemp("fluss-on-paimon")
    with local_cluster(folder, paimon_settings(folder / "warehouse")) as cluster, watched(cluster):
        yield cluster


@pytest.fixture(autouse=True)
def _fluss_clusters_that_work() -> None:
    from support.running.fluss_health import restart_stuck_coordinators

    restart_stuck_coordinators()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`HOST:PORT` of the name node of a real HDFS. Fails, and is not skipped, where its jars are not there."""
    from support.hadoop.hdfs_server import local_hdfs

    with local_hdfs(tmp_path_factory.mktemp("hdfs")) as name_node:
        yield name_node


@pytest.fixture(scope="session")
def s3_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server whose conditional PUT is atomic. Fails, and is not skipped, where its jars are not there."""
    from support.object_store.s3_server import s3proxy

    with s3proxy(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture(scope="session")
def rest_catalog_on_s3(s3_store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """An Iceberg REST catalog over that store, which hands out its keys with a table."""
    from support.object_store.rest_server import rest_catalog_server

    with rest_catalog_server(tmp_path_factory.mktemp("rest-catalog"), s3_store, vends=True) as catalog:
        yield catalog


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what `make integration` and `make test` run. Of the former some may fail for a defect of Fluss, twice."""
    if is_in_make_test(item):
        item.add_marker(MARK)
    if is_integration(item):
        item.add_marker(pytest.mark.integration)
        if asks_fluss(item):
            item.add_marker(AGAIN)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what a soak alone tries, unless it is chosen (`-m soak`)."""
    long_ones_first(items)
    if SOAKS or "soak" in config.option.markexpr:
        return
    left = set(left_to_the_soak(items))
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Prints what backends of the behaviour suite cannot do and how long each of them took, if its stories were told."""
    from support.behaviours.summary import BEHAVIOURS, summary

    reports = [report for kind in terminalreporter.stats.values() for report in kind if isinstance(report, pytest.TestReport)]
    of_stories = [report for report in reports if report.nodeid.startswith(BEHAVIOURS)]
    if of_stories:
        terminalreporter.section("behaviours: what a backend cannot do, and so was not tried")
        for line in summary(of_stories):
            terminalreporter.write_line(line)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFixture:
    """Called by pytest-xdist, once, where the work is dealt out."""
    return ByFixture(config, log)
