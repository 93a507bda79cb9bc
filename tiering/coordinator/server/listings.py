"""Listings in pages that all show one moment. The listing is kept here, and a token names it and a position in it.

A token is valid for the caller that got it, and for the policies that filtered the listing: with other policies it counts as too old.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from tiering.access.grants import Access
from tiering.clock import Ids
from tiering.errors import InvalidArgument

Item = TypeVar("Item")
Answer = TypeVar("Answer")

PAGE_LIMIT = 1_000
"""Upper bound of items on one page, some 500 bytes each."""

PAGE_BYTES = (4 << 20) - 4_096
"""Upper bound of bytes of the items in one answer: gRPC's default limit, less the rest of the answer."""

_POSITION_DIGITS = 12
"""Upper bound of digits of a position, more than any listing needs. Python refuses to parse very long numbers."""

KEPT_LISTINGS = 64
"""Number of kept listings. The least recently used one is removed first, the newest one never."""

KEPT_ITEMS = 400_000
"""Number of items in all kept listings, some 1 KB each. A caller that repeats first pages invalidates tokens instead of using up memory."""


@dataclass(frozen=True)
class Listing(Generic[Item]):
    """All items at one moment, filtered by what the caller may see."""

    items: tuple[Item, ...]
    observed_time: datetime
    access: Access


@dataclass(frozen=True)
class Page(Generic[Answer]):
    """A part of a listing. The last one has an empty token."""

    items: tuple[Answer, ...]
    observed_time: datetime
    next_token: str


class Listings(Generic[Item, Answer]):
    """The kept listings, by a random id, so that no token can be guessed from another.

    `answer_of` converts an item to its answer, and `size_of` returns the bytes of an answer. A page ends before it exceeds PAGE_BYTES.
    """

    def __init__(self, ids: Ids, answer_of: Callable[[Item], Answer], size_of: Callable[[Answer], int]) -> None:
        self._ids = ids
        self._answer_of = answer_of
        self._size_of = size_of
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Listing[Item]] = OrderedDict()

    def whole(self, listing: Listing[Item]) -> Page[Answer]:
        """Returns the whole listing as one page. Raises InvalidArgument, which names `page_size`, if it exceeds the limit of an answer."""
        answers = self._answers(listing, 0, len(listing.items))
        if len(answers) < len(listing.items):
            raise InvalidArgument(
                f"{len(listing.items)} entries do not fit into one answer of 4 MiB: ask with page_size",
                hint=f"Ask with a page_size, of at most {PAGE_LIMIT}, and for the pages that follow with the answer's next_page_token.",
            )
        return Page(answers, listing.observed_time, "")

    def first(self, listing: Listing[Item], page_size: int) -> Page[Answer]:
        """Returns the first page. The listing is kept only if there are more pages."""
        answers = self._answers(listing, 0, checked_size(page_size))
        if len(answers) == len(listing.items):
            return Page(answers, listing.observed_time, "")
        name = self._ids.new_id()
        with self._lock:
            self._kept[name] = listing
            while len(self._kept) > KEPT_LISTINGS or (len(self._kept) > 1 and self._kept_items() > KEPT_ITEMS):
                self._kept.popitem(last=False)
        return _page(name, listing, 0, answers)

    def _answers(self, listing: Listing[Item], start: int, size: int) -> tuple[Answer, ...]:
        """Returns at most `size` items from `start` that fit into an answer, and at least one if there is any."""
        answers: list[Answer] = []
        remaining_bytes = PAGE_BYTES
        for item in listing.items[start : start + size]:
            answer = self._answer_of(item)
            remaining_bytes -= self._size_of(answer)
            if remaining_bytes < 0 and answers:
                break
            answers.append(answer)
        return tuple(answers)

    def _kept_items(self) -> int:
        return sum(len(listing.items) for listing in self._kept.values())

    def next(self, token: str, page_size: int, access: Access) -> Page[Answer]:
        """Returns the page of a token; a repeat returns the same page. `access` is that of the caller.

        Raises InvalidArgument for an unknown or old token, and for a token of another caller.
        """
        name, _, position = token.rpartition(":")
        with self._lock:
            listing = self._kept.get(name)
            if listing is not None and not access.is_still(listing.access):
                listing = None
            if listing is not None:
                self._kept.move_to_end(name)
        if listing is None or not position.isdecimal() or len(position) > _POSITION_DIGITS:
            raise InvalidArgument("the page token is unknown or too old", hint="Ask for the first page again, without a token.")
        start = int(position)
        return _page(name, listing, start, self._answers(listing, start, checked_size(page_size)))


def checked_size(page_size: int) -> int:
    """Returns the size of a page; 0 means the limit. Raises InvalidArgument for a negative size."""
    if page_size < 0:
        raise InvalidArgument(f"page_size must not be negative, but is {page_size}")
    return min(page_size, PAGE_LIMIT) or PAGE_LIMIT


def _page(name: str, listing: Listing[Item], start: int, answers: tuple[Answer, ...]) -> Page[Answer]:
    end = start + len(answers)
    return Page(answers, listing.observed_time, f"{name}:{end}" if end < len(listing.items) else "")
