"""The table option `table.datalake.round.bytes`: a round begins before the freshness is over if this number of bytes waits. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from tiering.errors import InvalidArgument

ROUND_BYTES = "table.datalake.round.bytes"
NO_LIMIT = "none"
"""The default. Only the freshness begins a round."""

_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(i?b|bytes?)?", re.ASCII)
"""Fluss's form of memory sizes (`64mb`, `1 gb`): units are powers of 1,024, and `mib` means the same as `mb`."""


def parse_round_bytes(text: str) -> int | None:
    """Returns the value in bytes; None = `none`. Raises InvalidArgument."""
    word = text.strip().lower()
    if word == NO_LIMIT:
        return None
    size = parse_size(word)
    if size is None or not 1 <= size <= 1 << 60:
        raise InvalidArgument(
            f"the option {ROUND_BYTES} is {text[:60]!r}, which is not a valid size",
            hint=f"Write a number and a unit: '64 mb', '1 gb', '500000'. Write {NO_LIMIT!r} if only the freshness shall begin rounds.",
        )
    return size


def parse_size(text: str) -> int | None:
    """Returns a size such as `64 mb` in bytes; None if the text is not a size."""
    match = _SIZE.fullmatch(text.strip().lower())
    return None if match is None else int(Decimal(match[1]) * _UNITS[match[2] + "b"])


def round_bytes_of(properties: Mapping[str, str]) -> int | None:
    """Returns the value of the option in a table's properties, in bytes. Raises InvalidArgument."""
    return parse_round_bytes(properties.get(ROUND_BYTES, NO_LIMIT))
