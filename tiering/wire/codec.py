"""Converts dataclasses to messages and back, field by field of the same name. A new field is declared in its dataclass and in the proto.

| type of the dataclass's field | type in the message |
|---|---|
| int, float, str, bool, bytes | the number, text or bytes |
| StrEnum | string; reading raises ValueError for an unknown text |
| datetime | Timestamp, or int64 with the milliseconds since the epoch |
| a dataclass | a message with its fields |
| tuple, frozenset, Sequence or Collection of X | repeated X; the items of a set are sorted by their text |
| Mapping of K to V | map, or repeated message with two fields: the key, then the value; buckets are sorted |
| X or None | a field with presence; None = absent. A collection is in a message whose only field is repeated |

An absent field that cannot be None is read as 0, as empty, or as the value of an empty message. Reading raises ValueError or OverflowError
for a time that Python's datetime cannot represent. A codec compares names and types when it is created, at import, and raises TypeError.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from tiering.instants import EPOCH, from_milliseconds, to_milliseconds

ValueT = TypeVar("ValueT")
MessageT = TypeVar("MessageT", bound=Message)
KeyT = TypeVar("KeyT")
Convert = Callable[..., Any]
Converters = Mapping[type, Convert]
"""Functions by type. They convert values of the type after reading, or before writing."""

_SECONDS_PER_DAY = 86_400
_NO_CONVERTERS: Converters = types.MappingProxyType({})
_SCALARS = {
    int: {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_FIXED32},
    float: {FieldDescriptor.TYPE_DOUBLE},
    bool: {FieldDescriptor.TYPE_BOOL},
    str: {FieldDescriptor.TYPE_STRING},
    bytes: {FieldDescriptor.TYPE_BYTES},
}


class Codec(Generic[ValueT, MessageT]):
    """Converts one dataclass to one message and back.

    `elsewhere` names fields of the dataclass that the message lacks, and `beside` names fields of the message that the dataclass lacks.
    The caller of `from_pb` passes the former, and the caller of `to_pb` may pass the latter, both as keyword arguments. `reading` and
    `writing` apply to this dataclass and to those within it.
    """

    def __init__(
        self,
        value_class: type[ValueT],
        message_class: type[MessageT],
        *,
        elsewhere: Collection[str] = (),
        beside: Collection[str] = (),
        reading: Converters = _NO_CONVERTERS,
        writing: Converters = _NO_CONVERTERS,
    ) -> None:
        hints = get_type_hints(value_class)
        names = [field.name for field in fields(value_class) if field.name not in elsewhere]  # type: ignore[arg-type]
        described = message_class.DESCRIPTOR.fields_by_name
        differing = {*names, *beside} ^ {*described}
        if differing or not hints.keys() >= {*elsewhere}:
            raise TypeError(f"{value_class.__name__} and {message_class.__name__} differ in {sorted(differing) or elsewhere}")
        parts = [_Part(hints[name], described[name], reading, writing) for name in names]
        writes = [f"{part.name}={part.write(f'value.{part.name}')}" for part in parts] + ["**beside"] * bool(beside)
        reads = [f"{part.name}={part.read('message')}" for part in parts] + ["**elsewhere"] * bool(elsewhere)
        # Generated, as the __init__ of a dataclass is: a loop over the fields takes twice as long.
        self.write = _function(f"value{', **beside' * bool(beside)}", f"make({', '.join(writes)})", parts, message_class)
        """`to_pb` without types."""
        self.read = _function(f"message{', **elsewhere' * bool(elsewhere)}", f"make({', '.join(reads)})", parts, value_class)
        """`from_pb` without types."""

    def to_pb(self, value: ValueT, **beside: Any) -> MessageT:
        """Returns the message of a value. Fields that are None are absent."""
        message: MessageT = self.write(value, **beside)
        return message

    def from_pb(self, message: MessageT, **elsewhere: Any) -> ValueT:
        """Returns the value of a message. Absent fields that may be None are None."""
        value: ValueT = self.read(message, **elsewhere)
        return value


class MappingCodec(Generic[KeyT, ValueT, MessageT]):
    """Converts a mapping to a list of entries and back. An entry is a message with two fields: the key, then the value."""

    def __init__(
        self,
        key_type: type[KeyT],
        value_type: type[ValueT],
        entry_class: type[MessageT],
        *,
        reading: Converters = _NO_CONVERTERS,
        writing: Converters = _NO_CONVERTERS,
    ) -> None:
        key_field, value_field = entry_class.DESCRIPTOR.fields
        key, value = _Part(key_type, key_field, reading, writing), _Part(value_type, value_field, reading, writing)
        entry = f"make({key.name}={key.write('item[0]')}, {value.name}={value.write('item[1]')})"
        self._write = _function("item", entry, (key, value), entry_class)
        self._read = _function("entry", f"({key.read('entry')}, {value.read('entry')})", (key, value))
        self._order = getattr(key_type, "sort_key", None)

    def to_pb(self, mapping: Mapping[KeyT, ValueT]) -> list[MessageT]:
        """Returns the entries. Buckets are sorted, so that equal mappings have equal bytes."""
        order = self._order
        items = mapping.items() if order is None else sorted(mapping.items(), key=lambda item: order(item[0]))
        return [self._write(item) for item in items]

    def from_pb(self, entries: Iterable[MessageT]) -> dict[KeyT, ValueT]:
        """Returns the mapping. The last of several entries with one key counts."""
        return dict(map(self._read, entries))


class _Part:
    """A field, with the expressions that write and read it. Raises TypeError if the message's field cannot hold the type."""

    def __init__(self, hint: Any, field: Any, reading: Converters, writing: Converters) -> None:
        self.name = field.name
        self._field = field
        self._converters = (reading, writing)
        options = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        kinds = [kind for kind in options if kind is not type(None)]
        self._nullable = len(options) > len(kinds)
        if len(kinds) > 1 or (self._nullable and not field.has_presence):
            raise self._mismatch(hint)
        self.writer, self.reader = self._wrapped(kinds[0]) if self._nullable and get_origin(kinds[0]) else self._conversions(kinds[0])

    def write(self, value: str) -> str:
        """Returns the expression for the message's field."""
        if self.writer is None:
            return value
        written = f"write_{self.name}({value})"
        return f"None if {value} is None else {written}" if self._nullable else written

    def read(self, message: str) -> str:
        """Returns the expression for the value's field."""
        value = f"{message}.{self.name}"
        read = value if self.reader is None else f"read_{self.name}({value})"
        return f"{read} if {message}.HasField('{self.name}') else None" if self._nullable else read

    def _conversions(self, kind: Any) -> tuple[Convert | None, Convert | None]:
        origin = get_origin(kind)
        if origin is None:
            return self._single(kind)
        if not self._field.is_repeated:
            raise self._mismatch(kind)
        return self._mapping(*get_args(kind)) if issubclass(origin, Mapping) else self._collection(get_args(kind)[0], origin)

    def _single(self, kind: Any) -> tuple[Convert | None, Convert | None]:
        """Returns the functions that write and read one value; None = it stays as it is."""
        field, (reading, writing) = self._field, self._converters
        if kind in writing:
            return writing[kind], reading[kind]
        if kind is datetime and field.message_type is Timestamp.DESCRIPTOR:
            return time_to_pb, time_from_pb
        if kind is datetime and field.type == FieldDescriptor.TYPE_INT64:
            return to_milliseconds, from_milliseconds
        if is_dataclass(kind) and field.message_type is not None:
            codec: Codec[Any, Any] = Codec(cast("type", kind), GetMessageClass(field.message_type), reading=reading, writing=writing)
            return codec.write, codec.read
        if issubclass(kind, StrEnum) and field.type == FieldDescriptor.TYPE_STRING:
            return None, kind
        if field.type not in _SCALARS.get(kind, ()):
            raise self._mismatch(kind)
        return None, reading.get(kind)

    def _collection(self, kind: Any, origin: type) -> tuple[Convert, Convert]:
        write, read = self._single(kind)
        make: Convert = frozenset if origin is frozenset else tuple
        ordered: Convert = partial(sorted, key=str) if origin is frozenset else tuple
        return (
            ordered if write is None else lambda items: [*map(write, ordered(items))],
            make if read is None else lambda items: make(map(read, items)),
        )

    def _mapping(self, key_type: Any, value_type: Any) -> tuple[Convert, Convert]:
        entry = self._field.message_type
        if entry is None or len(entry.fields) != 2:
            raise self._mismatch(Mapping[key_type, value_type])
        reading, writing = self._converters
        codec: MappingCodec[Any, Any, Any] = MappingCodec(key_type, value_type, GetMessageClass(entry), reading=reading, writing=writing)
        return (dict, dict) if entry.GetOptions().map_entry else (codec.to_pb, codec.from_pb)

    def _wrapped(self, kind: Any) -> tuple[Convert, Convert]:
        """Returns the functions for a collection that may be None, which is in a message of its own."""
        wrapper = self._field.message_type
        if wrapper is None or len(wrapper.fields) != 1:
            raise self._mismatch(kind)
        part, make = _Part(kind, wrapper.fields[0], *self._converters), GetMessageClass(wrapper)
        return (
            _function("value", f"make({part.name}={part.write('value')})", [part], make),
            _function("message", part.read("message"), [part]),
        )

    def _mismatch(self, kind: Any) -> TypeError:
        return TypeError(f"the field {self._field.full_name} cannot hold {kind}")


def _function(parameters: str, expression: str, parts: Iterable[_Part], make: Convert | None = None) -> Convert:
    """Returns the function with this expression, which may call `make` and the functions of the parts."""
    names = {f"write_{part.name}": part.writer for part in parts} | {f"read_{part.name}": part.reader for part in parts} | {"make": make}
    function: Convert = eval(f"lambda {parameters}: {expression}", names)
    return function


def time_to_pb(time: datetime) -> Timestamp:
    """Returns an aware datetime as a message, in whole microseconds."""
    since = time - EPOCH
    return Timestamp(seconds=since.days * _SECONDS_PER_DAY + since.seconds, nanos=since.microseconds * 1_000)


def time_from_pb(pb: Timestamp) -> datetime:
    """Returns the time in UTC. Raises OverflowError for a year that Python's datetime cannot represent."""
    return EPOCH + timedelta(seconds=pb.seconds, microseconds=pb.nanos // 1_000)
