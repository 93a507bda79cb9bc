"""Real processes whose lake is in S3 behind a REST catalog, with a proxy before each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.object_store.deployment import DeploymentOnS3
from support.object_store.faulty_http import faulty_http
from support.object_store.rest_server import rest_catalog_server
from support.object_store.s3_server import S3Server
from support.object_store.scene import Scene


@pytest.fixture
def scene(s3_store: S3Server, tmp_path: Path) -> Iterator[Scene]:
    folders = [tmp_path / name for name in ("catalog", "ours")]
    for folder in folders:
        folder.mkdir()
    with (
        rest_catalog_server(folders[0], s3_store, vends=True) as catalog,
        faulty_http(catalog.uri) as catalog_proxy,
        faulty_http(s3_store.endpoint) as store_proxy,
    ):
        more = {"uri": catalog_proxy.uri, "s3.endpoint": store_proxy.uri}
        deployment = DeploymentOnS3(folders[1], catalog=catalog, more=more)
        try:
            deployment.start_coordinator()
            deployment.make_tables()
            yield Scene(deployment, catalog_proxy, store_proxy)
        finally:
            deployment.close()
