"""Offsets by the text of their bucket (`str(BucketKey)`), which is also how SQL shows them."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.model.tables import BucketKey, Offsets

TextOffsets = Mapping[str, int]
"""Offsets by `str(BucketKey)`."""


def to_text(offsets: Offsets) -> dict[str, int]:
    """Offsets as records keep them, in bucket order."""
    return {str(bucket): offsets[bucket] for bucket in sorted(offsets, key=BucketKey.sort_key)}


def from_text(offsets: TextOffsets) -> dict[BucketKey, int]:
    """The inverse of `to_text`."""
    return {BucketKey.parse(text): offset for text, offset in offsets.items()}
