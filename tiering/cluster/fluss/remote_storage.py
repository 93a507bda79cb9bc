"""Access options of a Fluss cluster's `remote.data.dir` and `remote.data.dirs`, with Fluss's names: options of its server.yaml. Pure.

Fluss accepts an option of its S3 file system under three prefixes, and some with dashes or with dots (Fluss 0.9.1, S3FileSystemPlugin).
Options that only locate the storage are public. Keys become environment variables of the reading process, and are never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument

REMOTE_DATA_DIR, REMOTE_DATA_DIRS = "remote.data.dir", "remote.data.dirs"
"""The second option is of Fluss 1.0, has several directories, and takes precedence. All of them have the same access options."""
ENDPOINT, REGION, PATH_STYLE = "s3.endpoint", "s3.region", "s3.path-style-access"
CONNECT_TIMEOUT, ANSWER_TIMEOUT = "s3.connection.establish.timeout", "s3.connection.timeout"
REMOTE_FILE_PROPERTIES = (ENDPOINT, REGION, PATH_STYLE, CONNECT_TIMEOUT, ANSWER_TIMEOUT)
"""Names of the properties that are used; none of them is a secret."""
DEFAULT_TIMEOUTS_MS = {CONNECT_TIMEOUT: 10_000, ANSWER_TIMEOUT: 30_000}
"""The time in which S3 must accept a connection, and the longest pause of its answer, in each of the client's three attempts. Both are the
same as for a lake on S3. The client's own defaults of 1 s and 3 s end reads of a store that is only busy.
"""
ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, TOKEN_VARIABLE = "FLUSS_S3_ACCESS_KEY", "FLUSS_S3_SECRET_KEY", "FLUSS_S3_SESSION_TOKEN"
"""Environment variables with keys. Without them the AWS SDK's own chain is used: AWS_ACCESS_KEY_ID, a profile, a role of the machine."""

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
    """The storage of a cluster's remote files."""

    data_dirs: tuple[str, ...]
    """The cluster's directories; empty = the options do not name one."""
    properties: Mapping[str, str]
    """Properties for `open_remote`; without secrets."""
    environment: Mapping[str, str]
    """Environment variables with which a process opens the storage: secrets."""


def remote_storage(options: Mapping[str, str]) -> RemoteStorage:
    """Returns the storage that the options of a server.yaml describe; other options are ignored. Raises InvalidArgument."""
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
    directories = (options.get(REMOTE_DATA_DIRS) or options.get(REMOTE_DATA_DIR) or "").split(",")
    return RemoteStorage(tuple(directory.strip() for directory in directories if directory.strip()), properties, environment)


def timeout_seconds(properties: Mapping[str, str], name: str) -> float:
    """Returns CONNECT_TIMEOUT or ANSWER_TIMEOUT in seconds. A bare number is milliseconds, as in Hadoop. Raises InvalidArgument, also for
    0, which would mean no timeout.
    """
    milliseconds = parse_duration_ms(properties.get(name) or str(DEFAULT_TIMEOUTS_MS[name]), name)
    if milliseconds == 0:
        raise InvalidArgument(f"{name} is 0: a hanging server would be waited for without end", hint="Leave it out, or write '30 s'.")
    return milliseconds / 1_000


def check_storage(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for an invalid timeout, and for an endpoint that is not `http(s)://host[:port]`.

    The error does not show the endpoint, because it may contain a password.
    """
    for name in DEFAULT_TIMEOUTS_MS:
        timeout_seconds(properties, name)
    parts = urlsplit(as_url(properties.get(ENDPOINT) or "https://-"))
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidArgument(f"{ENDPOINT} is not the address of a server", hint="Write it as http://host:port; keys are separate options.")


def as_url(endpoint: str) -> str:
    """Returns the endpoint as a URL; https is the default scheme."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"
