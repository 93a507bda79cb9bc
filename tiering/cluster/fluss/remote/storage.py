"""How a Fluss cluster's `remote.data.dir` is reached, in Fluss's own words: options of its server.yaml. Pure.

Fluss takes an option of its S3 file system under three prefixes, and some with dashes or with dots (Fluss 0.9.1, S3FileSystemPlugin). Those
that only say where the storage is are known to everybody; keys become environment variables of the process that reads, and travel nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument

REMOTE_DATA_DIR = "remote.data.dir"
ENDPOINT, REGION, PATH_STYLE = "s3.endpoint", "s3.region", "s3.path-style-access"
CONNECT_TIMEOUT, ANSWER_TIMEOUT = "s3.connection.establish.timeout", "s3.connection.timeout"
REMOTE_FILE_PROPERTIES = (ENDPOINT, REGION, PATH_STYLE, CONNECT_TIMEOUT, ANSWER_TIMEOUT)
"""Names of the properties that are read; none of them is a secret."""
DEFAULT_TIMEOUTS_MS = {CONNECT_TIMEOUT: 10_000, ANSWER_TIMEOUT: 30_000}
"""How long S3 may take to accept a connection, and how long its answer may pause, in one of its client's three attempts: as for a lake on
S3. The client's own 1 s and 3 s end reads of a store that is only busy."""
ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, TOKEN_VARIABLE = "FLUSS_S3_ACCESS_KEY", "FLUSS_S3_SECRET_KEY", "FLUSS_S3_SESSION_TOKEN"
"""Without them the AWS SDK's own chain counts: AWS_ACCESS_KEY_ID, a profile, a role of the machine."""

_PREFIXES = ("fs.s3a.", "s3a.", "s3.")
_PROPERTIES = {
    "endpoint": ENDPOINT,
    "endpoint.region": REGION,
    "region": REGION,
    "path.style.access": PATH_STYLE,
    "connection.establish.timeout": CONNECT_TIMEOUT,
    "connection.timeout": ANSWER_TIMEOUT,
}
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
    check_storage(properties)
    return RemoteStorage(options.get(REMOTE_DATA_DIR), properties, environment)


def timeout_seconds(properties: Mapping[str, str], name: str) -> float:
    """Of CONNECT_TIMEOUT or ANSWER_TIMEOUT. A bare number is milliseconds, as in Hadoop. Raises InvalidArgument; 0 would have no end."""
    milliseconds = parse_duration_ms(properties.get(name) or str(DEFAULT_TIMEOUTS_MS[name]), name)
    if milliseconds == 0:
        raise InvalidArgument(f"{name} is 0: a server that hangs would be waited for without end", hint="Leave it out, or write '30 s'.")
    return milliseconds / 1_000


def check_storage(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for a time-out that is none, and for an endpoint that is not `http(s)://host[:port]`.

    An endpoint is not shown, for a password may be in it.
    """
    for name in DEFAULT_TIMEOUTS_MS:
        timeout_seconds(properties, name)
    parts = urlsplit(as_url(properties.get(ENDPOINT) or "https://-"))
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidArgument(
            f"{ENDPOINT} is not an address of a server", hint="Write it as http://host:port; keys are options of their own."
        )


def as_url(endpoint: str) -> str:
    """With the scheme that it has without one."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"
