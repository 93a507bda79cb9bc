"""Time-outs of a lake's catalog and storage that its properties set: names, defaults, and what each is for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timeout:
    """A property that limits a wait. `default` is in the unit that its name, or its library, has."""

    name: str
    default: int
    meaning: str

    def milliseconds(self, properties: Mapping[str, Any]) -> int:
        """The value in force. Raises ValueError for one that is no positive number."""
        text = str(properties.get(self.name, self.default))
        if not (text.isascii() and text.isdigit()) or int(text) == 0:
            raise ValueError(f"the catalog property {self.name} is {text!r}; it must be a positive number of milliseconds")
        return int(text)


READ_DEADLINE = Timeout(
    "lakeward.catalog-read-deadline-ms",
    30_000,
    "How long a question to the catalog may take as a whole, with the metadata that it names; a round then fails and frees its slot.",
)
CHANGE_DEADLINE = Timeout(
    "lakeward.catalog-change-deadline-ms",
    120_000,
    "How long a commit, or the making of a lake table, may take as a whole; the lake is then read again to learn its outcome.",
)
REST_CONNECT = Timeout("rest.client.connection-timeout-ms", 10_000, "How long a REST catalog may take to accept a connection.")
REST_SOCKET = Timeout("rest.client.socket-timeout-ms", 60_000, "The longest pause in the answer of a REST catalog.")
S3_CONNECT = Timeout("s3.connect-timeout", 10, "Seconds that S3 may take to accept a connection, in one attempt of its client.")
S3_REQUEST = Timeout("s3.request-timeout", 30, "Seconds that S3 may take to answer, in one attempt of its client.")

TIMEOUTS = (READ_DEADLINE, CHANGE_DEADLINE, REST_CONNECT, REST_SOCKET, S3_CONNECT, S3_REQUEST)
"""All of them, as `sys.options` shows them."""

STORE_TIMEOUTS: Mapping[str, str] = {timeout.name: str(timeout.default) for timeout in (S3_CONNECT, S3_REQUEST)}
"""Those of a store where no property sets them: seconds of one attempt; the store's client makes several."""
