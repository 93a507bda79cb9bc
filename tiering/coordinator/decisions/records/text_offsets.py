"""Offsets keyed by the text of their bucket (`str(BucketKey)`), which is also how SQL shows them."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.model.tables import BucketKey, Offsets

TextOffsets = Mapping[str, int]
"""Offsets keyed by `str(BucketKey)`."""


def to_text(offsets: Offsets) -> dict[str, int]:
    """Returns offsets in the form that records store, in bucket order."""
    return {str(bucket): offsets[bucket] for bucket in sorted(offsets, key=BucketKey.sort_key)}


def from_text(offsets: TextOffsets) -> dict[BucketKey, int]:
    """Reverses `to_text`."""
    return {BucketKey.parse(text): offset for text, offset in offsets.items()}
