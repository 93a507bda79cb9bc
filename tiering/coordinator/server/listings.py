"""Listings in pages that all show one moment: the listing is kept here, and a token names it and a position in it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from tiering.clock import Ids
from tiering.errors import InvalidArgument

Item = TypeVar("Item")

PAGE_LIMIT = 1_000
"""Items on one page at most: some 500 bytes each, far below gRPC's 4 MiB."""

_POSITION_DIGITS = 12
"""More than any listing has items; Python refuses to read very long numbers."""

KEPT_LISTINGS = 64
"""The one used longest ago goes first, the one just made never."""

KEPT_ITEMS = 400_000
"""Of all kept listings, some 1 KB each: whoever asks for first pages again and again makes others' tokens old, and not memory scarce."""


@dataclass(frozen=True)
class Listing(Generic[Item]):
    """What there was at one moment, filtered already."""

    items: tuple[Item, ...]
    observed_time: datetime


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A piece of a listing; an empty token on the last one."""

    items: tuple[Item, ...]
    observed_time: datetime
    next_token: str


class Listings(Generic[Item]):
    """Kept listings, by a random id: a token cannot be guessed from another."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Listing[Item]] = OrderedDict()

    def first(self, listing: Listing[Item], page_size: int) -> Page[Item]:
        """Its first page; kept only if there are more."""
        size = checked_size(page_size)
        if len(listing.items) <= size:
            return Page(listing.items, listing.observed_time, "")
        name = self._ids.new_id()
        with self._lock:
            self._kept[name] = listing
            while len(self._kept) > KEPT_LISTINGS or (len(self._kept) > 1 and self._kept_items() > KEPT_ITEMS):
                self._kept.popitem(last=False)
        return _page(name, listing, 0, size)

    def _kept_items(self) -> int:
        return sum(len(listing.items) for listing in self._kept.values())

    def next(self, token: str, page_size: int) -> Page[Item]:
        """The page a token names; the same again for the same token. Raises InvalidArgument for an unknown or old one."""
        name, _, position = token.rpartition(":")
        with self._lock:
            listing = self._kept.get(name)
            if listing is not None:
                self._kept.move_to_end(name)
        if listing is None or not position.isdecimal() or len(position) > _POSITION_DIGITS:
            raise InvalidArgument("the page token is unknown or too old", hint="Ask for the first page again, without a token.")
        return _page(name, listing, int(position), checked_size(page_size))


def checked_size(page_size: int) -> int:
    """The size of a page; 0 = the limit. Raises InvalidArgument for a negative one."""
    if page_size < 0:
        raise InvalidArgument(f"page_size must not be negative, but is {page_size}")
    return min(page_size, PAGE_LIMIT) or PAGE_LIMIT


def _page(name: str, listing: Listing[Item], start: int, size: int) -> Page[Item]:
    end = start + size
    token = f"{name}:{end}" if end < len(listing.items) else ""
    return Page(listing.items[start:end], listing.observed_time, token)
