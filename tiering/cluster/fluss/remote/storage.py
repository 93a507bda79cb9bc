"""How a Fluss cluster's `remote.data.dir` is reached, in Fluss's own words: options of its server.yaml. Pure.

Fluss takes an option of its S3 file system under three prefixes, and some with dashes or with dots (Fluss 0.9.1, S3FileSystemPlugin). Those
that only say where the storage is are known to everybody; keys become environment variables of the process that reads, and travel nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tiering.errors import InvalidArgument

REMOTE_DATA_DIR = "remote.data.dir"
ENDPOINT, REGION, PATH_STYLE = "s3.endpoint", "s3.region", "s3.path-style-access"
REMOTE_FILE_PROPERTIES = (ENDPOINT, REGION, PATH_STYLE)
"""Names of the properties that are read; none of them is a secret."""
ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, TOKEN_VARIABLE = "FLUSS_S3_ACCESS_KEY", "FLUSS_S3_SECRET_KEY", "FLUSS_S3_SESSION_TOKEN"
"""Without them the AWS SDK's own chain counts: AWS_ACCESS_KEY_ID, a profile, a role of the machine."""

_PREFIXES = ("fs.s3a.", "s3a.", "s3.")
_PROPERTIES = {"endpoint": ENDPOINT, "endpoint.region": REGION, "region": REGION, "path.style.access": PATH_STYLE}
_VARIABLES = {"access.key": ACCESS_KEY_VARIABLE, "secret.key": SECRET_KEY_VARIABLE, "session.token": TOKEN_VARIABLE}


@dataclass(frozen=True)
class RemoteStorage:
    """Where a cluster keeps its remote files."""

    data_dir: str | None
    """`remote.data.dir`; None = the options do not say."""
    properties: Mapping[str, str]
    """As `open_remote` takes them; no secrets."""
    environment: Mapping[str, str]
    """Variables by which a process opens it: secrets."""


def remote_storage(options: Mapping[str, str]) -> RemoteStorage:
    """The storage that the options of a server.yaml name; all others count for nothing. Raises InvalidArgument."""
    properties: dict[str, str] = {}
    environment: dict[str, str] = {}
    for name, value in options.items():
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        if prefix is None or not value.strip():
            continue
        word = name.removeprefix(prefix).replace("-", ".")
        if word in _PROPERTIES:
            properties[_PROPERTIES[word]] = value.strip()
        elif word in _VARIABLES:
            environment[_VARIABLES[word]] = value.strip()
    check_endpoint(properties)
    return RemoteStorage(options.get(REMOTE_DATA_DIR), properties, environment)


def check_endpoint(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for one that is not `http(s)://host[:port]`; it is not shown, for a password may be in it."""
    parts = urlsplit(as_url(properties.get(ENDPOINT) or "https://-"))
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidArgument(
            f"{ENDPOINT} is not an address of a server", hint="Write it as http://host:port; keys are options of their own."
        )


def as_url(endpoint: str) -> str:
    """With the scheme that it has without one."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"
