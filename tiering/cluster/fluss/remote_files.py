"""Files under Fluss's `remote.data.dir`: log segments and KV snapshots, read through pyarrow's file systems.

A path without a scheme is local. S3 (`s3`, `s3a`, `s3n`) takes its endpoint, region and addressing from properties (`remote_storage.py`),
but its secrets only from the environment of the reading process, so that no task contains them. HDFS goes through hdfs-native
(`tiering.files.hdfs`), any other scheme through pyarrow (viewfs, gs, abfs) or, if that does not support it, through fsspec.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from tiering.cluster.fluss.remote_storage import (
    ACCESS_KEY_VARIABLE,
    ANSWER_TIMEOUT,
    CONNECT_TIMEOUT,
    ENDPOINT,
    PATH_STYLE,
    REGION,
    SECRET_KEY_VARIABLE,
    TOKEN_VARIABLE,
    as_url,
    timeout_seconds,
)
from tiering.errors import SetupError
from tiering.files.hdfs import hdfs_file_system

_LOCAL_SCHEMES = ("", "file")
_S3_SCHEMES = ("s3", "s3a", "s3n")
_PYARROW_SCHEMES = ("viewfs", "gs", "gcs", "abfs", "abfss")


def open_remote(uri: str, properties: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """Returns the file system of `uri`, and the path in it.

    Fluss writes paths unescaped, so nothing is unescaped. Does not connect before the first read. Raises SetupError for a scheme that this
    installation cannot read.
    """
    scheme = _scheme(uri)
    if scheme in _LOCAL_SCHEMES:
        return fs.LocalFileSystem(), _local_path(uri)
    scheme_path = uri.split("://", 1)[1] if "://" in uri else uri.split(":", 1)[1]
    if scheme in _S3_SCHEMES:
        return fs.S3FileSystem(**_s3_options(properties)), scheme_path
    if scheme == "hdfs":
        authority, _, path = scheme_path.partition("/")
        return hdfs_file_system(authority), f"/{path}"
    try:
        if scheme in _PYARROW_SCHEMES:
            return fs.FileSystem.from_uri(uri)
        handler = fs.FSSpecHandler(_fsspec_file_system(uri, scheme))  # type: ignore[abstract]  # only in the stubs
        return fs.PyFileSystem(handler), scheme_path
    except (ImportError, ValueError, NotImplementedError, pa.ArrowException, OSError) as error:
        raise SetupError(
            f"files of {scheme}:// cannot be read on this machine: {error}",
            hint=f"Install the fsspec implementation of {scheme!r} in the environments of the coordinator and the executors.",
        ) from error


def _scheme(uri: str) -> str:
    before, colon, _ = uri.partition(":")
    return before.lower() if colon and "/" not in before else ""


def _local_path(uri: str) -> str:
    """Returns the path of `/a`, `file:/a` or `file:///a`."""
    if not _scheme(uri):
        return uri
    path = uri.split(":", 1)[1]
    return "/" + path.lstrip("/")


def _s3_options(properties: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {
        "connect_timeout": timeout_seconds(properties, CONNECT_TIMEOUT),
        "request_timeout": timeout_seconds(properties, ANSWER_TIMEOUT),
    }
    access_key, secret_key = os.environ.get(ACCESS_KEY_VARIABLE), os.environ.get(SECRET_KEY_VARIABLE)
    if access_key and secret_key:
        options |= {"access_key": access_key, "secret_key": secret_key, "session_token": os.environ.get(TOKEN_VARIABLE)}
    if endpoint := properties.get(ENDPOINT):
        parts = urlsplit(as_url(endpoint))
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        # Arrow puts the bucket into the path by default, as servers with a custom endpoint require.
        options["force_virtual_addressing"] = properties.get(PATH_STYLE, "true").lower() == "false"
    if region := properties.get(REGION):
        options["region"] = region
    return options


def _fsspec_file_system(uri: str, scheme: str) -> Any:
    import fsspec

    return fsspec.filesystem(scheme, **fsspec.get_filesystem_class(scheme)._get_kwargs_from_urls(uri))
