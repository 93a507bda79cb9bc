"""Time-outs of a lake's catalog and storage that its properties set: names, defaults and meanings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timeout:
    """A property that limits a wait. `default` has the unit of the property's name or of the library."""

    name: str
    default: int
    meaning: str

    def milliseconds(self, properties: Mapping[str, Any]) -> int:
        """Returns the value in force. Raises ValueError for a value that is not a positive number."""
        text = str(properties.get(self.name, self.default))
        if not (text.isascii() and text.isdigit()) or int(text) == 0:
            raise ValueError(f"the catalog property {self.name} is {text!r}; it must be a positive number of milliseconds")
        return int(text)


READ_DEADLINE = Timeout(
    "lakeward.catalog-read-deadline-ms",
    30_000,
    "Limit of a read of the catalog, including the metadata files. When it is exceeded, the round fails and frees its slot.",
)
CHANGE_DEADLINE = Timeout(
    "lakeward.catalog-change-deadline-ms",
    120_000,
    "Limit of a commit or of the creation of a lake table. When it is exceeded, the lake is read again to learn the outcome.",
)
REST_CONNECT = Timeout("rest.client.connection-timeout-ms", 10_000, "Limit for a REST catalog to accept a connection.")
REST_SOCKET = Timeout("rest.client.socket-timeout-ms", 60_000, "Limit of a pause in the answer of a REST catalog.")
S3_CONNECT = Timeout("s3.connect-timeout", 10, "Seconds for S3 to accept a connection, in one attempt of its client.")
S3_REQUEST = Timeout("s3.request-timeout", 30, "Seconds for S3 to answer, in one attempt of its client.")

TIMEOUTS = (READ_DEADLINE, CHANGE_DEADLINE, REST_CONNECT, REST_SOCKET, S3_CONNECT, S3_REQUEST)
"""All time-outs, as `sys.options` shows them."""

STORE_TIMEOUTS: Mapping[str, str] = {timeout.name: str(timeout.default) for timeout in (S3_CONNECT, S3_REQUEST)}
"""Defaults of the store's time-outs. They are seconds of one attempt; the store's client makes several attempts."""
