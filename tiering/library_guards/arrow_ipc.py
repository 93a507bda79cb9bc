"""Checks Arrow IPC from outside before it is decoded: requests of clients, answers of a service, files of a folder.

A few hundred bytes of Arrow can stand for gigabytes: lists of size 0 and NULL columns have rows without bytes. Compressed buffers declare
their decompressed length, buffers may overlap, and one field may be named a million times as a child. So the message's metadata is checked
first (Arrow columnar format, "Serialization and Interprocess Communication"). Only then Arrow decodes the message, without a copy. Before
that, Arrow has verified the structure of the message's flatbuffer.

Every function raises InvalidData or UnsupportedType for input that it does not accept, and no other error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from tiering.errors import InvalidData, UnsupportedType

MAX_FIELDS = 8_000
"""Most fields of a schema, nested fields included: four times the limit of a table, since a map needs more fields in Arrow."""
MAX_DEPTH = 48
"""Deepest nesting of fields: three times the limit of a table, for the same reason."""
MAX_VIEW_BYTES = 64 * 1024 * 1024
"""Most bytes of all values in string views and binary views of a stream. Views may name the same bytes many times."""
FILE_MAGIC = b"ARROW1\0\0"
"""The first bytes of an Arrow file. A stream follows them."""


@dataclass(frozen=True)
class ArrowLimits:
    """Limits of one stream. The caller limits its bytes: a decoded stream is no larger than the encoded one."""

    rows: int
    null_columns: bool = False
    """Whether columns of type NULL are accepted. Their rows have no bytes at all."""


WRITE_LIMITS = ArrowLimits(rows=1_000_000)
"""Limits of one write. A row with a single boolean takes an eighth of a byte on the wire, but a whole record in the log."""


def read_schema(data: bytes) -> pa.Schema:
    """Returns the schema of a serialized schema message."""
    with _border("the schema is not an Arrow IPC message"):
        return _schema(_first_message(pa.py_buffer(data)))


def read_rows(data: bytes, limits: ArrowLimits) -> pa.Table:
    """Returns all rows of a stream, after a check of their values."""
    with _border("the rows are not an Arrow IPC stream"):
        messages = _messages(pa.py_buffer(data))
        schema = _schema(next(messages, None))
        layout = _layout(schema.remove_metadata(), limits.null_columns)  # pyarrow cannot hash metadata
        batches, rows, view_bytes = [], 0, 0
        for message in messages:
            size = _check_batch(message, layout)
            rows, view_bytes = rows + size.rows, view_bytes + size.view_bytes
            if rows > limits.rows:
                raise InvalidData(f"there are more than {limits.rows} rows", hint="Send fewer at once.")
            if view_bytes > MAX_VIEW_BYTES:
                raise InvalidData(
                    f"the values of view columns have {view_bytes} bytes; at most {MAX_VIEW_BYTES} are taken", hint="Send fewer rows."
                )
            batches.append(ipc.read_record_batch(message, schema))
        table = pa.Table.from_batches(batches, schema=schema)
        table.validate(full=True)
        return table


def rows_bytes(batch: pa.RecordBatch) -> bytes:
    """Returns the rows as an Arrow IPC stream, which `read_rows` reads."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read_file_batch(content: pa.Buffer, schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Returns the only record batch of an Arrow file, without a copy. The batch must have `schema` and `rows` rows."""
    with _border("the content is not an Arrow file"):
        if content.slice(0, len(FILE_MAGIC)).to_pybytes() != FILE_MAGIC:
            raise InvalidData("the content is not an Arrow file")
        stop = len(FILE_MAGIC) + 8 + _unpack("<I", content, len(FILE_MAGIC) + 4)
        message = ipc.read_message(content.slice(stop))
        file_schema = _cached_schema(content.slice(len(FILE_MAGIC), stop - len(FILE_MAGIC)).to_pybytes())
        if not file_schema.equals(schema) or _check_batch(message, _layout(schema.remove_metadata())).rows != rows:
            raise InvalidData(f"the content is not an Arrow file of {rows} rows of these columns")
        batch = ipc.read_record_batch(message, schema)
        batch.validate()
        return batch


class BodyReader:
    """Reads record batch messages of one schema that are stored without the schema, as in Fluss's log. Bodies may be compressed."""

    def __init__(self, schema: pa.Schema, max_decompressed_bytes: int, columns: Sequence[int] | None = None) -> None:
        """`columns`: positions of the columns to decode, at least one; None = all. Raises UnsupportedType for a schema whose rows are not
        accepted."""
        self._schema = schema
        self._layout = _layout(schema.remove_metadata())
        self._max_decompressed_bytes = max_decompressed_bytes
        self._columns = None if columns is None or len(columns) == len(schema) else sorted(columns)

    def read(self, content: pa.Buffer, rows: int) -> pa.RecordBatch:
        """Returns the batch, which must have `rows` rows, with the chosen columns in the schema's order. Only compressed buffers are
        copied, unless columns are left out."""
        with _border("the records are not an Arrow record batch"):
            message = ipc.read_message(content)
            if _check_batch(message, self._layout, self._max_decompressed_bytes).rows != rows:
                raise InvalidData(f"the record batch does not have the {rows} rows that it should")
            message = _without_empty_frames(message)
            batch = ipc.read_record_batch(message, self._schema) if self._columns is None else self._read_some(message, self._columns)
            batch.validate(full=True)  # checks offsets and texts, too: the writer of the log made them together with their checksum
            return batch

    def _read_some(self, message: Any, columns: Sequence[int]) -> pa.RecordBatch:
        # Only a reader of streams leaves out columns. It needs the schema in front of the message, so the message is copied, which is much
        # faster than decompressing it.
        stream = pa.BufferOutputStream()
        stream.write(self._schema.serialize())
        stream.write(message.serialize())
        with ipc.open_stream(stream.getvalue(), options=ipc.IpcReadOptions(included_fields=list(columns))) as reader:
            return reader.read_next_batch()


@lru_cache(maxsize=1_000)
def _cached_schema(message: bytes) -> pa.Schema:
    """Does the same as `read_schema`, with a cache: the files of a table begin with the same bytes."""
    return _schema(_first_message(pa.py_buffer(message)))


class _border:
    """Turns every error of Arrow about a damaged message into InvalidData."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, pa.ArrowException | OSError | EOFError | struct.error | ValueError | IndexError | OverflowError):
            raise InvalidData(f"{self._subject}: {error}") from error


def _messages(data: pa.Buffer) -> Iterator[Any]:
    """Yields the messages of a stream up to its end mark, without a copy."""
    reader = ipc.MessageReader.open_stream(pa.BufferReader(data))
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _first_message(data: pa.Buffer) -> Any:
    return next(_messages(data), None)


def _schema(message: Any) -> pa.Schema:
    if message is None or message.type != "schema":
        raise InvalidData("the Arrow stream does not begin with a schema")
    header = _header(message)
    if header.number(_SCHEMA_ENDIANNESS, "<h"):
        raise InvalidData("the Arrow stream is big-endian", hint="Write it as little-endian.")
    _check_fields(header)
    schema = ipc.read_schema(message)
    check_names_are_text(schema)
    return schema


def _check_fields(schema: _Fields) -> None:
    """Raises InvalidData for too many or too deep fields. A field counts as often as it is named: a flatbuffer may name one many times."""
    count = 0
    level = list(schema.tables(_SCHEMA_FIELDS))
    for _ in range(MAX_DEPTH):
        count += len(level)
        if count > MAX_FIELDS:
            raise InvalidData(f"the schema has more than {MAX_FIELDS} fields, nested ones included")
        below: list[_Fields] = []
        for field in level:
            below += field.tables(_FIELD_CHILDREN, MAX_FIELDS - count)
        if not below:
            return
        level = below
    raise InvalidData(f"the schema has fields more than {MAX_DEPTH} deep within each other")


def check_names_are_text(schema: pa.Schema) -> None:
    """Raises InvalidData if the name of a column, a nested field or a time zone is not UTF-8. Arrow accepts any bytes."""
    try:
        for field in schema:
            list(_texts(field))
    except UnicodeDecodeError as error:
        raise InvalidData("a column's name or type is not UTF-8") from error


def _texts(field: pa.Field[Any]) -> Iterator[str]:
    """Yields names as text. Arrow notices bytes that are not UTF-8 only when it decodes them."""
    yield field.name
    kind = field.type
    if isinstance(kind, pa.TimestampType) and kind.tz is not None:
        yield kind.tz
    for index in range(kind.num_fields):
        yield from _texts(kind.field(index))


@dataclass(frozen=True)
class _Layout:
    """The wire layout of a record batch of some schema: its field nodes and buffers, in the order of a walk through the fields."""

    nodes: int
    without_nulls: tuple[int, ...]
    """Nodes of the entries and keys of maps. Arrow ends the process if one of them has nulls."""
    buffers: tuple[int, ...]
    """Number of buffers of each node; -1 for views, which have two and a variable number."""


@lru_cache(maxsize=1_000)
def _layout(schema: pa.Schema, null_columns: bool = False) -> _Layout:
    """Returns the layout of a schema's record batches. Raises UnsupportedType for a type whose rows need no bytes, or that rows may not
    have."""
    if not len(schema):
        raise InvalidData("the rows have no columns")
    buffers: list[int] = []
    without_nulls: list[int] = []
    for field in schema:
        if null_columns and pa.types.is_null(field.type):
            buffers.append(0)
        else:
            _lay_out(field.name, field.type, buffers, without_nulls)
    return _Layout(len(buffers), tuple(without_nulls), tuple(buffers))


def _lay_out(path: str, kind: pa.DataType, buffers: list[int], without_nulls: list[int]) -> None:
    types = pa.types
    if types.is_map(kind):
        buffers.append(2)
        without_nulls += [len(buffers), len(buffers) + 1]
        buffers.append(1)
        _lay_out(f"{path}.key", kind.key_type, buffers, without_nulls)
        _lay_out(f"{path}.value", kind.item_type, buffers, without_nulls)
    elif types.is_struct(kind) and kind.num_fields:
        buffers.append(1)
        for index in range(kind.num_fields):
            _lay_out(f"{path}.{kind.field(index).name}", kind.field(index).type, buffers, without_nulls)
    elif types.is_list(kind) or types.is_large_list(kind):
        buffers.append(2)
        _lay_out(f"{path}.element", kind.value_type, buffers, without_nulls)
    elif types.is_fixed_size_list(kind) and kind.list_size > 0:
        buffers.append(1)
        _lay_out(f"{path}.element", kind.value_type, buffers, without_nulls)
    elif types.is_string_view(kind) or types.is_binary_view(kind):
        buffers.append(_VIEWS)
    elif types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        buffers.append(3)
    elif _has_fixed_width(kind):
        buffers.append(2)
    else:
        raise UnsupportedType(
            f"column {path!r} has type {kind}, which is not taken in rows",
            hint="Send plain columns: no NULL-typed, dictionary-encoded or run-end encoded ones, no list views, no values of size 0.",
            column=path,
        )


def _has_fixed_width(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind) or pa.types.is_nested(kind):
        return False
    try:
        return kind.bit_width > 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _BatchSize:
    """The numbers that a record batch declares. `view_bytes`: bytes of the values in its view columns."""

    rows: int
    view_bytes: int


def _check_batch(message: Any, layout: _Layout, max_decompressed_bytes: int = 0) -> _BatchSize:
    """Returns the declared numbers of a record batch, after a check that all of it fits into its bytes. Raises InvalidData.

    A compressed body is accepted only with `max_decompressed_bytes`, its largest decompressed size.
    """
    if message.type != "record batch":
        raise InvalidData(f"the Arrow stream has a {message.type} message, which is not taken", hint="Do not dictionary-encode columns.")
    header, body_bytes = _header(message), 0 if message.body is None else message.body.size
    is_compressed = header.has(_BATCH_COMPRESSION)
    if is_compressed and not max_decompressed_bytes:
        raise InvalidData("the Arrow stream is compressed", hint="Send it without body compression.")
    rows = header.number(_BATCH_LENGTH, "<q")
    nodes, buffers = header.numbers(_BATCH_NODES, 2), header.numbers(_BATCH_BUFFERS, 2)
    if len(nodes) != 2 * layout.nodes or rows < 0 or min(nodes) < 0:
        raise InvalidData("the record batch does not fit its schema")
    if any(nodes[2 * index + 1] for index in layout.without_nulls):
        raise InvalidData("a map has an entry or a key that is NULL", hint="Leave such entries out.")
    if min(buffers, default=0) < 0 or sum(buffers[1::2]) > body_bytes:
        raise InvalidData("the buffers of a record batch are longer than its body")
    if is_compressed and _decompressed_bytes(message.body, buffers) > max_decompressed_bytes:
        raise InvalidData(f"the record batch is more than {max_decompressed_bytes} bytes long when decompressed")
    variadic = header.numbers(_BATCH_VARIADIC)
    has_views = variadic or _VIEWS in layout.buffers
    return _BatchSize(rows, _view_bytes(message.body, layout, buffers, variadic) if has_views else 0)


def _without_empty_frames(message: Any) -> Any:
    """Returns an equal message in which empty buffers have no bytes, if its compression is LZ4.

    Arrow's Java library writes an empty buffer as its decompressed length of 0 without a frame, and its C++ library refuses that for LZ4.
    """
    header = _header(message)
    if not header.has(_BATCH_COMPRESSION) or header.table(_BATCH_COMPRESSION).number(_COMPRESSION_CODEC, "<b") != _LZ4_FRAME:
        return message
    body, buffers = message.body, header.numbers(_BATCH_BUFFERS, 2)
    empty = [place for place in range(0, len(buffers), 2) if buffers[place + 1] >= 8 and not _unpack("<q", body, buffers[place])]
    if not empty:
        return message
    metadata, start = bytearray(message.metadata), header.vector(_BATCH_BUFFERS)[0]
    for place in empty:
        struct.pack_into("<q", metadata, start + 8 * (place + 1), 0)
    return ipc.read_message(b"".join((struct.pack("<iI", -1, len(metadata)), metadata, body)))


def _decompressed_bytes(body: pa.Buffer, buffers: Sequence[int]) -> int:
    """Returns the decompressed size of a body. A compressed buffer begins with its decompressed length as int64; -1 = it is not compressed
    (`Message.fbs`, BodyCompression)."""
    starts = [buffers[index] for index in range(0, len(buffers), 2) if buffers[index + 1] >= 8]
    return sum(max(_unpack("<q", body, start), 0) for start in starts)


def _view_bytes(body: pa.Buffer, layout: _Layout, buffers: Sequence[int], variadic: Sequence[int]) -> int:
    """Returns the bytes of a view column's values: a view has 16 bytes, the first four of which are the length of its value (columnar
    format, "Variable-size Binary View Layout").
    """
    views = [index for index, count in enumerate(layout.buffers) if count == _VIEWS]
    if len(variadic) != len(views) or min(variadic) < 0 or max(variadic) > len(buffers):
        raise InvalidData("the record batch does not fit its schema")
    at, total, counts = 0, 0, iter(variadic)
    for count in layout.buffers:
        if count == _VIEWS:
            offset, size = buffers[2 * at + 2 : 2 * at + 4]
            lengths = np.frombuffer(memoryview(body.slice(offset, size - size % 16)), dtype="<i4")[::4]
            total += int(lengths.clip(min=0).sum(dtype=np.int64))
            count = 2 + next(counts)
        at += count
    return total


_VIEWS = -1

_MESSAGE_HEADER, _SCHEMA_ENDIANNESS, _SCHEMA_FIELDS, _FIELD_CHILDREN = 2, 0, 1, 5
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION, _BATCH_VARIADIC = 0, 1, 2, 3, 4
_COMPRESSION_CODEC, _LZ4_FRAME = 0, 0
"""Numbers of fields in `format/Message.fbs` and `format/Schema.fbs` of Apache Arrow."""


@dataclass(slots=True)
class _Fields:
    """A table of a flatbuffer: https://flatbuffers.dev/internals. Arrow has verified that all offsets lie inside."""

    data: pa.Buffer
    position: int

    def _at(self, field: int) -> int | None:
        """Returns the position of a field's value; None if the field is absent."""
        vtable = self.position - _unpack("<i", self.data, self.position)
        if 4 + 2 * field >= _unpack("<H", self.data, vtable):
            return None
        offset = _unpack("<H", self.data, vtable + 4 + 2 * field)
        return self.position + offset if offset else None

    def has(self, field: int) -> bool:
        return self._at(field) is not None

    def number(self, field: int, kind: str) -> int:
        at = self._at(field)
        return 0 if at is None else _unpack(kind, self.data, at)

    def table(self, field: int) -> _Fields:
        at = self._at(field)
        if at is None:
            raise InvalidData("the Arrow message lacks its header")
        return _Fields(self.data, at + _unpack("<I", self.data, at))

    def vector(self, field: int) -> tuple[int, int]:
        """Returns the position of the first element of a vector, and the number of elements."""
        at = self._at(field)
        if at is None:
            return 0, 0
        start = at + _unpack("<I", self.data, at)
        return start + 4, _unpack("<I", self.data, start)

    def tables(self, field: int, limit: int = MAX_FIELDS) -> list[_Fields]:
        """Returns the tables of a vector. If there are more than `limit`, it returns the first `limit` + 1."""
        start, count = self.vector(field)
        places = range(start, start + 4 * min(count, limit + 1), 4)
        return [_Fields(self.data, place + _unpack("<I", self.data, place)) for place in places]

    def numbers(self, field: int, width: int = 1) -> Sequence[int]:
        """Returns a vector of 64-bit numbers, or of structs of `width` of them, as one flat sequence."""
        start, count = self.vector(field)
        if start + 8 * width * count > self.data.size:
            raise InvalidData("the Arrow message is cut off")
        return struct.unpack_from(f"<{width * count}q", self.data, start)


def _header(message: Any) -> _Fields:
    metadata = message.metadata
    return _Fields(metadata, _unpack("<I", metadata, 0)).table(_MESSAGE_HEADER)


def _unpack(kind: str, data: pa.Buffer, at: int) -> int:
    value: int = struct.unpack_from(kind, data, at)[0]
    return value
