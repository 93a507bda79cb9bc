"""A deployment over a Paimon lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worlds.paimon_world import PaimonWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PaimonWorld]:
    paimon = PaimonWorld(tmp_path)
    yield paimon
    paimon.close()
