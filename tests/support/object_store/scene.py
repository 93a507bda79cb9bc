"""What fault tests of a lake in S3 have in their hands."""

from __future__ import annotations

from dataclasses import dataclass

from support.object_store.deployment import DeploymentOnS3
from support.object_store.faulty_http import FaultyHttp


@dataclass
class Scene:
    """A coordinator that runs, with both tables; tierers are the test's. Tests look at the lake past the proxies."""

    deployment: DeploymentOnS3
    catalog: FaultyHttp
    store: FaultyHttp
