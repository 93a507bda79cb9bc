"""A tiered log table, and ways to damage its lake copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_world import LakeWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    made = LakeWorld(tmp_path)
    yield made
    made.close()
