"""A real Iceberg lake in a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lakes.lake_kit import LakeKit, ObservedCatalog
from tiering.lake.writing import keys, spool


@pytest.fixture
def kit(tmp_path: Path) -> LakeKit:
    return LakeKit(tmp_path)


@pytest.fixture
def observed() -> type[ObservedCatalog]:
    return ObservedCatalog


@pytest.fixture(params=["in memory", "by duckdb"])
def any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways of few and of many keys."""
    if request.param == "by duckdb":
        monkeypatch.setattr(keys, "MANY_KEYS", 0)
        monkeypatch.setattr(spool, "MEMORY_BYTES", 1_000)
