"""Real processes whose lake is in S3, with a proxy before the store and another before a REST catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import LakeKind
from support.object_store.s3_server import S3Server
from support.object_store.scene import CatalogScene, Scene, iceberg_scene, scene_of


@pytest.fixture
def rest_scene(s3_store: S3Server, tmp_path: Path) -> Iterator[CatalogScene]:
    """Iceberg tables behind a REST catalog."""
    with iceberg_scene(s3_store, tmp_path) as scene:
        yield scene


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> LakeKind:
    """Kind of lake, from the test's parameters."""
    kind: LakeKind = request.param
    return kind


@pytest.fixture
def scene(kind: LakeKind, s3_store: S3Server, tmp_path: Path) -> Iterator[Scene]:
    with scene_of(kind, s3_store, tmp_path) as scene:
        yield scene
