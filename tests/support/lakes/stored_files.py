"""How a test reaches the files of a lake without Lakeward's own code: in a folder, or in S3."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyarrow import fs


def is_in_s3(properties: Mapping[str, str]) -> bool:
    """Whether a lake's warehouse is there, and not behind a catalog that knows where."""
    return properties.get("warehouse", "").startswith("s3://")


def file_system_of(properties: Mapping[str, str]) -> fs.FileSystem:
    """By the properties of a lake."""
    if not is_in_s3(properties):
        return fs.LocalFileSystem()
    scheme, _, host = properties["s3.endpoint"].partition("://")
    return fs.S3FileSystem(
        access_key=properties["s3.access-key-id"],
        secret_key=properties["s3.secret-access-key"],
        region=properties["s3.region"],
        endpoint_override=host,
        scheme=scheme,
    )


def path_in(location: str) -> str:
    """A location as that file system takes it."""
    return re.sub(r"^[a-z0-9]+:(//)?", "", location)  # pypaimon writes file:/ with one stroke


def pypaimon_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Options of pypaimon's catalog by the properties of a lake."""
    if not is_in_s3(properties):
        return {"warehouse": properties["warehouse"]}
    return {
        "warehouse": properties["warehouse"],
        "s3.endpoint": properties["s3.endpoint"],
        "s3.region": properties["s3.region"],
        "s3.access-key": properties["s3.access-key-id"],
        "s3.secret-key": properties["s3.secret-access-key"],
        "s3.path-style-access": "true",
    }
