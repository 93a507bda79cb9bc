"""Rows of system tables as a service sends them, decoded within bounds: what answers at a uri may be broken, or something else.

Everything that decoding would make room for is looked at first: the bytes as they come, the rows and nested values that a batch
claims to have, its types, and that nothing is compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiering.errors import InvalidAnswer

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BYTES = 256 << 20
"""Of one system table as sent: some hundred bytes a row."""

MAX_ROWS = 1_000_000
MAX_VALUES = 10_000_000
"""Of one column of a batch, nested ones counted: NULLs and lists take no bytes."""

DEEPEST = 8
"""A column of lists of structs of lists is three deep."""

_HEADER_TYPE, _HEADER = 1, 2
_SCHEMA, _RECORD_BATCH = 1, 3
_LENGTH, _NODES, _COMPRESSION = 0, 1, 3
"""Fields of the tables `Message` and `RecordBatch` in Arrow's Message.fbs."""


def collected(pieces: Iterable[bytes]) -> bytes:
    """The stream in one piece. Raises InvalidAnswer when it is too long."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise InvalidAnswer(f"the service's answer has more than {MAX_BYTES} bytes", hint="Ask for fewer rows or columns.")
        parts.append(piece)
    return b"".join(parts)


def decoded(stream: bytes) -> pa.Table:
    """The rows. Raises InvalidAnswer for what is no Arrow stream, or more than a system table can be."""
    import pyarrow as pa  # takes longer than the answer of a describe()
    from pyarrow import ipc

    try:
        _check_messages(stream)
        with ipc.open_stream(pa.py_buffer(stream)) as reader:
            for field in reader.schema:
                _check_type(field.type, DEEPEST)
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise InvalidAnswer(f"the service's answer is no Arrow stream: {str(error)[:200]}") from error
    return rows


def _check_messages(stream: bytes) -> None:
    import pyarrow as pa
    from pyarrow import ipc

    rows = 0
    reader = ipc.MessageReader.open_stream(pa.py_buffer(stream))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        rows += _checked_rows(message.metadata.to_pybytes())
        if rows > MAX_ROWS:
            raise InvalidAnswer(f"the service's answer has more than {MAX_ROWS} rows", hint="Ask for fewer.")


def _checked_rows(metadata: bytes) -> int:
    """How many rows the message claims. Raises InvalidAnswer."""
    message = _Table.root(metadata)
    kind = message.byte(_HEADER_TYPE)
    if kind == _SCHEMA:
        return 0
    if kind != _RECORD_BATCH:
        raise InvalidAnswer("the service's answer has Arrow messages that no system table has")
    batch = message.table(_HEADER)
    if batch.has(_COMPRESSION):
        raise InvalidAnswer("the service's answer is compressed: this version takes none")
    if any(length > MAX_VALUES for length in batch.node_lengths(_NODES)):
        raise InvalidAnswer(f"the service's answer has more than {MAX_VALUES} values in a column")
    return batch.long(_LENGTH)


class _Table:
    """A table of a flatbuffer, as far as it is needed here (FlatBuffers, "Internals"). pyarrow has verified it."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start
        self._slots = start - self._read("<i", start)

    @staticmethod
    def root(data: bytes) -> _Table:
        return _Table(data, struct.unpack_from("<I", data)[0])

    def has(self, field: int) -> bool:
        return self._at(field) != 0

    def byte(self, field: int) -> int:
        return self._read("<B", self._at(field)) if self.has(field) else 0

    def long(self, field: int) -> int:
        return self._read("<q", self._at(field)) if self.has(field) else 0

    def table(self, field: int) -> _Table:
        at = self._at(field)
        return _Table(self._data, at + self._read("<I", at))

    def node_lengths(self, field: int) -> list[int]:
        """Of a vector of `FieldNode`: two longs each, the first of which is the length."""
        if not self.has(field):
            return []
        at = self._at(field)
        vector = at + self._read("<I", at)
        return [self._read("<q", vector + 4 + 16 * index) for index in range(self._read("<I", vector))]

    def _at(self, field: int) -> int:
        """Where it is; 0 = absent."""
        slot = 4 + 2 * field
        offset = self._read("<H", self._slots + slot) if slot < self._read("<H", self._slots) else 0
        return self._start + offset if offset else 0

    def _read(self, form: str, at: int) -> int:
        number: int = struct.unpack_from(form, self._data, at)[0]
        return number


def _check_type(kind: pa.DataType, depth: int) -> None:
    import pyarrow as pa

    inner = [kind.field(number).type for number in range(kind.num_fields)]
    known = pa.types.is_list(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind)
    plain = pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_null(kind)
    if not (known if inner else plain or pa.types.is_struct(kind)) or depth == 0:
        raise InvalidAnswer(f"the service's answer has a column of the type {str(kind)[:100]}, which no system table has")
    for part in inner:
        _check_type(part, depth - 1)
