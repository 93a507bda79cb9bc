"""An embedded cluster with its coordinator and a lake of each kind in turn, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import LAKE_KINDS
from support.worlds.lake_world import LakeWorld


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    """A test that is about some kinds names them with `support.lake_kinds.kinds.in_lakes`."""
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()
