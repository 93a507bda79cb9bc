"""Listings in pages. A listing that never ends, or that is larger than any real one, is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from tiering.errors import InvalidAnswer, LakewardError

MAX_ITEMS = 1_000_000
"""Entries of one listing: more tables, leases, partitions or segments than one service has."""

MAX_BYTES = 512 << 20
"""Bytes of one listing, as sent."""


class SizedMessage(Protocol):
    """A message that knows its size on the wire in bytes."""

    def ByteSize(self) -> int: ...


class Pages:
    """Counts the pages of one listing. `items` names the entries, in the plural."""

    def __init__(self, uri: str, items: str) -> None:
        self._listing = f"the list of {items} of the service at {uri}"
        self._items = 0
        self._bytes = 0
        self._positions: set[object] = set()

    def check(self, page: SizedMessage, items: int, position: object) -> None:
        """Counts a page. `position` is the beginning of the next page, None after the last. Raises InvalidAnswer."""
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


class PageRequest(Protocol):
    """A request whose answer is a page."""

    page_token: str


class Page(SizedMessage, Protocol):
    """An answer that is a page; its token asks for the next one, and is empty on the last."""

    @property
    def next_page_token(self) -> str: ...


RequestT = TypeVar("RequestT", bound=PageRequest)
PageT = TypeVar("PageT", bound=Page)
ItemT = TypeVar("ItemT")


class PagedListing(Generic[RequestT, PageT, ItemT]):
    """Requests a listing page by page: send `request` until it is None, and `take` each answer. `items` has the entries so far."""

    def __init__(self, uri: str, noun: str, request: RequestT, read: Callable[[PageT], Sequence[ItemT]]) -> None:
        """`read` makes the items of a page; `noun` names them, in the plural."""
        self.request: RequestT | None = request
        self.items: list[ItemT] = []
        self._uri = uri
        self._pages = Pages(uri, noun)
        self._read = read

    def take(self, page: PageT) -> None:
        """Adds a page. Raises InvalidAnswer for one that cannot be read, or that shows that the listing never ends."""
        with readable(self._uri):
            items = self._read(page)
        self._pages.check(page, len(items), page.next_page_token or None)
        self.items += items
        if self.request is not None and page.next_page_token:
            self.request.page_token = page.next_page_token
        else:
            self.request = None


@contextmanager
def readable(uri: str) -> Iterator[None]:
    """Raises InvalidAnswer for a value of an answer that no service of ours sends, such as a time in the year 300,000."""
    try:
        yield
    except LakewardError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidAnswer(f"the answer of the service at {uri} cannot be read: {str(error)[:200]}") from error
