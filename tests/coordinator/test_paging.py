"""Kept listings are bounded: the one used longest ago goes first."""

from __future__ import annotations

import pytest

from support.coordinator_world import START, CountingIds
from support.memory_coordinator import table_status
from tiering.coordinator.paging import KEPT_LISTINGS, Listing, Listings
from tiering.errors import InvalidArgument

TWO = Listing((table_status("sales.a"), table_status("sales.b")), START)


def test_a_listing_that_fits_on_one_page_is_not_kept() -> None:
    page = Listings(CountingIds()).first(TWO, 2)
    assert (page.items, page.next_token) == (TWO.items, "")


def test_the_listing_used_longest_ago_is_forgotten_first() -> None:
    listings = Listings(CountingIds())
    oldest = listings.first(TWO, 1).next_token
    second = listings.first(TWO, 1).next_token
    for _ in range(KEPT_LISTINGS - 2):
        listings.first(TWO, 1)
    assert listings.next(oldest, 1).items == TWO.items[1:]
    listings.first(TWO, 1)
    assert listings.next(oldest, 1).next_token == ""
    with pytest.raises(InvalidArgument, match="too old"):
        listings.next(second, 1)


def test_kept_listings_are_bounded_by_all_their_items_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for many first pages must not keep the statuses of very many tables as often."""
    monkeypatch.setattr("tiering.coordinator.paging.KEPT_ITEMS", 3)
    listings = Listings(CountingIds())
    first, second = (listings.first(TWO, 1).next_token for _ in range(2))
    with pytest.raises(InvalidArgument, match="too old"):
        listings.next(first, 1)
    assert listings.next(second, 1).items == TWO.items[1:]
    large = listings.first(Listing(TWO.items * 5, START), 1).next_token
    assert len(listings.next(large, 9).items) == 9  # the one just made is always kept
