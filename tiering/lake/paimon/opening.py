"""Opens the Paimon lake for the registry: with pypaimon installed, for a warehouse that is a folder of this machine or is in S3."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from tiering.errors import InvalidArgument
from tiering.extras import install_hint
from tiering.lake.base import Lake, LakeFormat
from tiering.lake.catalog_properties import FILESYSTEM, check_local_path, storage_properties
from tiering.lake.catalog_timeouts import STORE_TIMEOUTS
from tiering.lake.user_settings import own_settings, user_settings
from tiering.redaction.redact import redact

EXTRA, EXTRA_FOR_S3 = "paimon", "paimon-s3"
KINDS = ("", "sql", "hadoop", FILESYSTEM)
"""Values of the property `type` with which tables are found by the names of their folders. `sql` is the value of a data folder's own lake,
for the catalog of its Iceberg tables.
"""
S3_SCHEMES = ("s3", "s3a")
WITHOUT_BOTO3 = ("role-arn", "role-session-name", "anonymous", "signer", "signer.uri", "resolve-region")
"""Properties, behind `s3.` or `client.`, that PyArrow's client knows but commits, which use boto3, would ignore."""


def open_paimon(properties: Mapping[str, str]) -> Lake:
    """Opens the Paimon tables below `warehouse`. Raises InvalidArgument if pypaimon is missing, or the catalog or the storage is not
    supported.
    """
    try:
        from tiering.lake.paimon.lake import PaimonLake
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tiering"):
            raise
        raise _not_installed(error.name, EXTRA) from error
    merged = {**user_settings(), **properties}
    texts = {name: value for name, value in merged.items() if isinstance(value, str)}
    scheme = texts.get("warehouse", "").partition("://")[0].lower()
    if scheme not in S3_SCHEMES:
        return PaimonLake(warehouse_folder(texts))
    from tiering.lake.paimon.storage.s3 import S3Storage

    warehouse = warehouse_in_s3(texts)
    if find_spec("boto3") is None:
        raise _not_installed("boto3", EXTRA_FOR_S3)
    return PaimonLake(warehouse, S3Storage.of({**STORE_TIMEOUTS, **storage_properties(texts)}))


def warehouse_in_s3(properties: Mapping[str, str]) -> PurePosixPath:
    """Returns `<bucket>/<key>` of a `warehouse` in S3. Raises InvalidArgument."""
    _check_kind(properties)
    for name in (f"{prefix}.{name}" for prefix in ("s3", "client") for name in WITHOUT_BOTO3):
        if name in properties:
            raise _refused(
                f"the lake property {name!r} is not supported with Paimon tables in S3",
                "Set keys with s3.access-key-id and s3.secret-access-key, or provide them in the environment of each process, as "
                "AWS_PROFILE does for a role; set the region with s3.region.",
            )
    if not properties.get("s3.region") and not properties.get("client.region"):
        raise _refused("the lake in S3 has no region", "Set the lake property s3.region; use us-east-1 if the store has no regions.")
    warehouse = properties["warehouse"]
    path = warehouse.partition("://")[2].removesuffix("/")
    if not path or any(part in ("", ".", "..") for part in path.split("/")) or set(path) & set("?#@"):
        raise _refused(
            f"Paimon tables in the warehouse {redact(warehouse)!r} are not supported",
            "The property `warehouse` of a lake in S3 has the form s3://BUCKET/FOLDER.",
        )
    return PurePosixPath(path)


def warehouse_folder(properties: Mapping[str, str]) -> Path:
    """Returns the folder of this machine that `warehouse` names. Raises InvalidArgument."""
    _check_kind(properties)
    warehouse = properties.get("warehouse", "")
    parts = urlsplit(warehouse)
    if parts.scheme:
        check_local_path(warehouse)
    path = unquote(parts.path) if parts.scheme else warehouse
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise _refused(
            f"Paimon tables in the warehouse {redact(warehouse)!r} are not supported",
            "The property `warehouse` has to be a folder of this machine (/path/of/a/folder or file:///path/of/a/folder) or in S3: "
            "s3://BUCKET/FOLDER.",
        )
    return Path(path)


def _check_kind(properties: Mapping[str, str]) -> None:
    kind = properties.get("type", "").lower()
    if kind not in KINDS:
        hint = "The warehouse folder itself is their catalog: leave out `type`."
        raise _refused(f"Paimon tables in a catalog of type {kind!r} are not supported", hint)


def _not_installed(package: str, extra: str) -> InvalidArgument:
    hint = f"{install_hint(extra)} Coordinator and tierers need it."
    return _refused(f"the package {package}, which reads Paimon tables, is not installed", hint)


def _refused(message: str, hint: str) -> InvalidArgument:
    return InvalidArgument(message, hint=hint, lake_format="paimon")


LAKE_FORMAT = LakeFormat(open_paimon, own_settings)
"""The entry of the registry for `paimon`."""
