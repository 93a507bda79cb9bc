"""How tests are dealt out to the workers of pytest-xdist, and where their folders are."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ONE_FIXTURE = (
    "tests/behaviours/",
    "tests/cli/",
    "tests/cluster/fluss/",
    "tests/integration/clients/",
    "tests/integration/fluss/paimon/",
    "tests/integration/plugin/",
    "tests/integration/slt/",
)
"""Folders whose files share servers that take long to start: one worker runs all of a folder."""
NO_FIXTURE = ("tests/faults/",)
"""Folders whose tests each start processes of their own: any worker that is free takes the next test."""
LONG = (
    "tests/cluster/fluss/",
    "tests/cli/",
    "tests/behaviours/",
    "tests/integration/plugin/",
    "tests/integration/fluss/paimon/",
    "tests/integration/clients/",
    "tests/packaging/test_wheel.py",
    "tests/integration/",
    "tests/packaging/",
)
"""Tests that take minutes come first, and tests that any worker can run come last: then all workers end at about the same time."""
SERVERS = frozenset({"fluss", "fluss_of_two", "fluss_of_small_segments", "fluss_on_paimon", "hdfs", "s3_store", "rest_catalog_on_s3"})
"""Fixtures of servers with a JVM of their own."""
NAMES_OF_SERVERS = ("fluss", "iceberg, hadoop catalog on HDFS", "iceberg in S3", "paimon in S3")
"""With these begin the parameters of tests/behaviours/ and tests/conformance/ that get them."""
OF_PROCESSES = (
    "tests/integration/",
    "tests/faults/",
    "tests/packaging/",
    "tests/behaviours/",
    "tests/cli/",
    "tests/validate/",
    "tests/cluster/embedded/kv/test_kv_crashes.py",
    "tests/cluster/embedded/kv/test_refused_records.py",
    "tests/library_guards/test_arrow_ipc.py",
    "tests/access/test_running_service.py",
)
"""Folders and files whose tests start processes, or tell whole stories."""
MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 6 << 30


def is_integration(item: pytest.Item) -> bool:
    """Whether it waits for processes or servers that it starts, or tells a whole story: unit tests are quick."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    of_servers = any(isinstance(value, str) and value.startswith(NAMES_OF_SERVERS) for value in values)
    fixtures = set(getattr(item, "fixturenames", ()))
    return of_servers or not SERVERS.isdisjoint(fixtures) or item.nodeid.startswith(OF_PROCESSES)


def scope_of(nodeid: str) -> str:
    """Returns the scope that one worker runs: the tests of a file, except for the folders above."""
    folder = next((folder for folder in ONE_FIXTURE if nodeid.startswith(folder)), None)
    if folder is not None:
        return folder
    return nodeid if nodeid.startswith(NO_FIXTURE) else nodeid.split("::", 1)[0]


def long_ones_first(items: list[pytest.Item]) -> None:
    """Puts the tests into the order in which they are dealt out: LONG, then the files with most tests."""
    sizes: dict[str, int] = {}
    for item in items:
        sizes[scope_of(item.nodeid)] = sizes.get(scope_of(item.nodeid), 0) + 1

    def place(item: pytest.Item) -> tuple[int, int, str]:
        long = next((number for number, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG))
        return long, -sizes[scope_of(item.nodeid)], item.nodeid.split("::", 1)[0]

    items.sort(key=place)


class ByFixture(LoadScopeScheduling):
    """The tests of a scope stay together, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def folders_in_memory() -> None:
    """There nothing waits for a disk: a test syncs what it writes some hundred times. Only where there is room, and no TMPDIR is set."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
