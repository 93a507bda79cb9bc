"""Reads the bytes in which Fluss packs values at many positions at once: one numpy operation for a field of all rows.

Positions count from the first byte of the buffer. A buffer has `PADDING` before and after its values, so that a whole word may be read at
any position of a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions, or lengths, in bytes."""
Words: TypeAlias = npt.NDArray[np.uint64]
AnyArray: TypeAlias = "pa.Array[Any]"

PADDING = bytes(32)
"""A damaged value may end some bytes behind its row before that is detected."""
_MAX_DECIMAL_BYTES = 16
_WORD_BYTES = 8
_MAX_INLINE_BYTES = 12
"""Maximum size of a value that Arrow's views contain inline."""
_CONTINUED = np.uint64(0x8080808080808080)
_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_BYTE_COUNTS = np.uint64(0x0101010101010101)
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Masks and shifts that join eight groups of seven bits, one per byte, to one number: neighbours are joined in pairs, three times."""


class PackedBytes:
    """A padded buffer. Methods raise ValueError for invalid bytes."""

    def __init__(self, padded: bytes) -> None:
        self._buffer = pa.py_buffer(padded)
        self._bytes = np.frombuffer(padded, np.uint8)

    @staticmethod
    def joined(values: Sequence[bytes]) -> PackedBytes:
        """Returns the concatenated values; the first begins at `len(PADDING)`."""
        return PackedBytes(b"".join((PADDING, *values, PADDING)))

    def read(self, dtype: npt.DTypeLike, at: Positions) -> npt.NDArray[Any]:
        """Returns the little-endian number of type `dtype` at each position."""
        kind = np.dtype(dtype)
        # A view with a number at every byte: indexing it gathers unaligned words.
        view: npt.NDArray[Any] = np.ndarray((len(self._bytes) - kind.itemsize + 1,), kind, self._bytes.data, strides=(1,))
        return view[at]

    def bits(self, at: Positions, places: int | Positions) -> npt.NDArray[np.bool_]:
        """Returns bit `places` of the bits that begin at each position."""
        result: npt.NDArray[np.bool_] = (self._bytes[at + (places >> 3)] >> (places & 7)) & 1 == 1
        return result

    def varints(self, at: Positions) -> tuple[Words, Positions]:
        """Returns the unsigned number at each position, encoded with seven bits a byte, lowest first, and the position after it."""
        words = self.read("<u8", at)
        last = ~words & _CONTINUED
        below = (last & (~last + np.uint64(1))) - np.uint64(1)
        lengths = ((below & _BYTE_COUNTS) * _BYTE_COUNTS >> np.uint64(56)).view(np.int64)
        numbers = words & below & _SEVEN_BITS
        for low, high, shift in _FOLDS:
            numbers = (numbers & low) | ((numbers & high) >> shift)
        if (long := np.flatnonzero(last == 0)).size:
            last_bytes = self.read("<u2", at[long] + _WORD_BYTES).astype(np.uint64)
            has_tenth = last_bytes & np.uint64(0x80) != 0
            tenth = np.where(has_tenth, last_bytes >> np.uint64(8), np.uint64(0))
            if (tenth > 1).any():
                raise ValueError("a number is longer than 64 bits")
            numbers[long] |= (last_bytes & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
            lengths[long] += 1 + has_tenth
        return numbers, at + lengths

    def slices(self, starts: Positions, lengths: Positions) -> AnyArray:
        """Returns a copy of the bytes `[start, start + length)` for each start."""
        views = np.zeros((len(starts), 2), np.uint64)
        views[:, 0] = lengths.view(np.uint64) | self.read("<u4", starts).astype(np.uint64) << np.uint64(32)
        inline = self.read("<u8", starts + 4)
        views[:, 1] = np.where(lengths <= _MAX_INLINE_BYTES, inline, starts.view(np.uint64) << np.uint64(32))
        if len(self._bytes) > np.iinfo(np.int32).max:
            raise ValueError("more than 2 GiB of values at once")
        return array_of(pa.binary_view(), len(starts), views, self._buffer).cast(pa.binary())

    def big_integers(self, starts: Positions, lengths: Positions) -> npt.NDArray[np.int64]:
        """Returns signed big-endian integers of up to 16 bytes, each as its low and its high word."""
        if ((lengths < 1) | (lengths > _MAX_DECIMAL_BYTES)).any():
            raise ValueError("a decimal is not between 1 and 16 bytes long")
        places = np.arange(_MAX_DECIMAL_BYTES)
        digits = self._bytes[(starts + lengths - 1)[:, None] - places]
        signs = np.where(self._bytes[starts] >= 0x80, 0xFF, 0).astype(np.uint8)
        whole = np.where(places < lengths[:, None], digits, signs[:, None])
        return np.ascontiguousarray(whole).view(np.int64)


def array_of(kind: pa.DataType, count: int, *values: Any) -> AnyArray:
    """Returns an Arrow array without NULLs that consists of these buffers."""
    buffers: list[Any] = [None, *map(pa.py_buffer, values)]
    array: AnyArray = pa.Array.from_buffers(kind, count, buffers)
    return array
