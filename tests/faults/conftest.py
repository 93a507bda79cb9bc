"""Real processes on a temporary data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A coordinator that runs; tierers are the test's."""
    deployment = Deployment(tmp_path)
    try:
        deployment.start_coordinator()
        yield deployment
    finally:
        deployment.close()
