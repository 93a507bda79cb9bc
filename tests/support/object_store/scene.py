"""Scenes of fault tests for a lake in S3: a coordinator, and a proxy before everything that the lake needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.lake_kinds.kinds import LakeKind
from support.object_store.deployment import DeploymentOnS3, on_s3
from support.object_store.faulty_http import FaultyHttp, faulty_http
from support.object_store.paimon_warehouse import PaimonWarehouse
from support.object_store.rest_server import rest_catalog_server
from support.object_store.s3_server import S3Server


@dataclass
class Scene:
    """A coordinator that runs, with both tables; tierers are the test's. Tests look at the lake past the proxies."""

    deployment: DeploymentOnS3
    store: FaultyHttp


@dataclass
class CatalogScene(Scene):
    """A scene of Iceberg tables behind a REST catalog."""

    catalog: FaultyHttp


@contextmanager
def iceberg_scene(store: S3Server, folder: Path) -> Iterator[CatalogScene]:
    """In `folder`, which is empty."""
    folders = [folder / name for name in ("catalog", "ours")]
    for place in folders:
        place.mkdir()
    with (
        rest_catalog_server(folders[0], store, vends=True) as catalog,
        faulty_http(catalog.uri) as catalog_proxy,
        faulty_http(store.endpoint) as store_proxy,
    ):
        deployment = on_s3(folders[1], catalog, **{"uri": catalog_proxy.uri, "s3.endpoint": store_proxy.uri})
        with _running(deployment):
            yield CatalogScene(deployment, store_proxy, catalog_proxy)


@contextmanager
def paimon_scene(store: S3Server, folder: Path, kind: LakeKind) -> Iterator[Scene]:
    """In `folder`, which is empty."""
    with faulty_http(store.endpoint) as store_proxy:
        deployment = on_s3(folder, PaimonWarehouse(store), kind, **{"s3.endpoint": store_proxy.uri})
        with _running(deployment):
            yield Scene(deployment, store_proxy)


@contextmanager
def scene_of(kind: LakeKind, store: S3Server, folder: Path) -> Iterator[Scene]:
    """Yields the scene of any kind of lake."""
    with iceberg_scene(store, folder) if kind.format == "iceberg" else paimon_scene(store, folder, kind) as scene:
        yield scene


@contextmanager
def _running(deployment: DeploymentOnS3) -> Iterator[None]:
    try:
        deployment.start_coordinator()
        deployment.make_tables()
        yield
    finally:
        deployment.close()
