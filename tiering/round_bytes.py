"""The table option `table.datalake.round.bytes`: so much waiting begins a round before the freshness is over. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from tiering.errors import InvalidArgument

ROUND_BYTES = "table.datalake.round.bytes"
NO_LIMIT = "none"
"""Its default: only the freshness begins a round."""

_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(i?b|bytes?)?", re.ASCII)
"""As Fluss writes memory sizes (`64mb`, `1 gb`): powers of 1,024, with `mib` for the same."""


def parse_round_bytes(text: str) -> int | None:
    """The value in bytes; None = `none`. Raises InvalidArgument."""
    word = text.strip().lower()
    if word == NO_LIMIT:
        return None
    size = parse_size(word)
    if size is None or not 1 <= size <= 1 << 60:
        raise InvalidArgument(
            f"the option {ROUND_BYTES} is {text[:60]!r}, which is no size of a round",
            hint=f"Write a number and a unit: '64 mb', '1 gb', '500000'; or {NO_LIMIT!r}, if only the freshness is to begin rounds.",
        )
    return size


def parse_size(text: str) -> int | None:
    """A size such as `64 mb` in bytes; None if the text is no size."""
    match = _SIZE.fullmatch(text.strip().lower())
    return None if match is None else int(Decimal(match[1]) * _UNITS[match[2] + "b"])


def round_bytes_of(properties: Mapping[str, str]) -> int | None:
    """What a table's options say. Raises InvalidArgument."""
    return parse_round_bytes(properties.get(ROUND_BYTES, NO_LIMIT))
