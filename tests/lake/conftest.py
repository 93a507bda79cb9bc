"""A real Iceberg lake in a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lake_kit import LakeKit, ObservedCatalog


@pytest.fixture
def kit(tmp_path: Path) -> LakeKit:
    return LakeKit(tmp_path)


@pytest.fixture
def observed() -> type[ObservedCatalog]:
    return ObservedCatalog
