"""Real processes on a temporary data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment, started


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A coordinator that runs; tierers are the test's."""
    with started(Deployment(tmp_path)) as deployment:
        yield deployment
