"""Checks the quotes of a CSV file: each quoted value is closed, and no text follows its closing quote.

A quote within an unquoted value, such as `5" disk`, is an ordinary character, for Python's csv module as well as for Arrow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_QUOTE = ord('"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def has_regular_quotes(file: Path, delimiter: str, block_bytes: int) -> bool:
    """Returns whether all quotes of a file are regular; also False for a line that is too long for this check."""
    beside_quotes = np.zeros(256, np.bool_)
    beside_quotes[list(f"{delimiter}\r\n".encode())] = True
    is_inside, before = False, ord("\n")
    with file.open("rb") as data:
        data.seek(len(_BYTE_ORDER_MARK) if data.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK else 0)
        while content := data.read(block_bytes) + data.readline(block_bytes):
            while content.endswith(b'"') and (more := data.readline(block_bytes)):
                content += more
                if len(content) > 4 * block_bytes:
                    return False
            if b'"' in content:
                is_inside, is_regular = _scan(np.frombuffer(content, np.uint8), is_inside, before, beside_quotes)
                if not is_regular:
                    return False
            before = content[-1]
    return not is_inside


def _scan(data: NDArray[np.uint8], is_inside: bool, before: int, beside_quotes: NDArray[np.bool_]) -> tuple[bool, bool]:
    """Returns whether the end of a block is inside a quoted value, and whether all quotes of the block are regular.

    `before` is the byte before the block. The block does not end within a run of quotes. A run of adjacent quotes is one step. An odd run
    at the begin of a value opens or closes the value. An odd run elsewhere closes an open value, or is text. An even run changes nothing.
    So the state after each run is the parity of the runs of the first kind since the last run of the second kind.
    """
    quotes = np.flatnonzero(data == _QUOTE)
    is_first = np.append(True, np.diff(quotes) > 1)
    starts, firsts = quotes[is_first], np.flatnonzero(is_first)
    lengths = np.diff(np.append(firsts, len(quotes)))
    stops = starts + lengths
    at_start, at_end = beside_quotes[data[starts - 1]], beside_quotes[data[np.minimum(stops, len(data) - 1)]]
    if starts[0] == 0:
        at_start[0] = beside_quotes[before]
    if stops[-1] == len(data):
        at_end[-1] = True
    is_odd = (lengths & 1).astype(np.bool_)
    turns = np.cumsum(is_odd & at_start)
    last_closing = np.maximum.accumulate(np.where(is_odd & ~at_start, np.arange(len(starts)), -1))
    since = np.where(last_closing >= 0, turns - turns[last_closing], turns + is_inside)
    inside_after = (since & 1).astype(np.bool_)
    inside_before = np.append(is_inside, inside_after[:-1])
    closes = np.where(inside_before, is_odd, at_start & ~is_odd)
    return bool(inside_after[-1]), not bool(np.any(closes & ~at_end))
