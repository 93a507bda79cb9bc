"""Listings that come in pages from a service, within bounds: one that never ends is an error, and not the end of the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.message import Message

from tiering.errors import InvalidAnswer, LakewardError

MAX_ITEMS = 1_000_000
"""Of one listing: more tables, leases, partitions or segments than one service has."""

MAX_BYTES = 512 << 20
"""Of one listing, as sent."""


class Pages:
    """Looks at each page of one listing."""

    def __init__(self, uri: str, what: str) -> None:
        """`what` it lists, in the plural."""
        self._listing = f"the list of {what} of the service at {uri}"
        self._items = 0
        self._bytes = 0
        self._positions: set[object] = set()

    def check(self, page: Message, items: int, position: object) -> None:
        """Counts a page; `position` is where the next one begins, None after the last. Raises InvalidAnswer."""
        self._items += items
        self._bytes += page.ByteSize()
        if self._items > MAX_ITEMS or self._bytes > MAX_BYTES:
            raise InvalidAnswer(f"{self._listing} has more than {MAX_ITEMS} entries or {MAX_BYTES} bytes")
        if position is None:
            return
        if not items or position in self._positions:
            raise InvalidAnswer(
                f"{self._listing} never ends: a page {'comes again' if items else 'without entries is followed by another'}"
            )
        self._positions.add(position)


@contextmanager
def readable(uri: str) -> Iterator[None]:
    """Values of an answer that none of ours can have, such as a time in the year 300,000, are an InvalidAnswer."""
    try:
        yield
    except LakewardError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidAnswer(f"the answer of the service at {uri} cannot be read: {str(error)[:200]}") from error
