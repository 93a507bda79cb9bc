"""Fixtures of tests of rounds."""

from __future__ import annotations

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> LakeKind:
    """Each kind of lake in turn."""
    chosen: LakeKind = request.param
    return chosen
