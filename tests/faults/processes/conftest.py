"""One coordinator with both tables of `FaultyDeployment`; tierers, faults and further coordinators are the test's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.faulty.deployment import FaultyDeployment


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[FaultyDeployment]:
    scene = FaultyDeployment(tmp_path)
    try:
        scene.start_coordinator()
        scene.make_tables()
        yield scene
    finally:
        scene.close()
