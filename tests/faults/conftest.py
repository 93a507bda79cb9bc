"""Real processes on a temporary data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster_of_processes import Deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A coordinator that runs; tierers are the test's."""
    made = Deployment(tmp_path)
    try:
        made.start_coordinator()
        yield made
    finally:
        made.close()
