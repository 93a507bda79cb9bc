"""Puts the numbers of JSON text in quotes, so that Arrow's reader returns their digits and not the nearest double. Pure."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_QUOTE = ord('"')
_ESCAPED = re.compile(rb"\\.", re.DOTALL)


def _bytes_in(characters: bytes) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_OF_NUMBERS = _bytes_in(b"0123456789+-.eE")
_FIRST_OF_NUMBERS = _bytes_in(b"0123456789-")


def with_quoted_numbers(content: bytes) -> bytes:
    """Returns JSON text in which each number is a text of the same characters. Texts stay unchanged."""
    data = np.frombuffer(content, np.uint8)
    unescaped = np.frombuffer(_ESCAPED.sub(b"__", content), np.uint8) if b"\\" in content else data
    is_quote = unescaped == _QUOTE
    # The sum of bytes wraps at 256, which does not change its parity.
    in_text = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(np.bool_)
    of_number = np.zeros(len(data) + 2, np.bool_)
    of_number[1:-1] = _OF_NUMBERS[data] & ~in_text
    starts = np.flatnonzero(of_number[1:-1] & ~of_number[:-2])
    stops = np.flatnonzero(of_number[1:-1] & ~of_number[2:]) + 1
    numbers = _FIRST_OF_NUMBERS[data[starts]]  # excludes the "e" of true and false
    places = np.concatenate([starts[numbers], stops[numbers]])
    return np.insert(data, places, _QUOTE).tobytes()
