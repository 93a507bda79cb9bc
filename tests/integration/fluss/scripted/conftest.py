"""A scripted Fluss cluster of a release that a test chooses, with a coordinator and a tierer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scripted.world import ScriptedFlussWorld


@pytest.fixture
def release() -> str:
    """The release of the cluster at its start. A test parametrizes it for another one."""
    return "0.9"


@pytest.fixture
def world(tmp_path: Path, release: str) -> Iterator[ScriptedFlussWorld]:
    world = ScriptedFlussWorld(tmp_path, release)
    yield world
    world.close()
