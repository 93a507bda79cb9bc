"""Lets pyiceberg share readers of manifests, instead of building the same reader for each file.

pyiceberg turns the schema in the header of each Avro file into one of its own, and builds a reader from it: 1.5 ms for a manifest of a few
entries, a fifth of the CPU time of a small round, which opens a dozen. Almost all manifests of a table have the same schema.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.schema import Schema

REMEMBERED = 64
"""Number of readers in the cache, some 100 kB each. Each partition spec and each writer's kind of file needs one."""
LONGEST_SCHEMA = 100_000
"""Most characters of a schema whose reader is cached: a file of a lake may have a text of any length."""
_SCHEMA = "avro.schema"

_readers: OrderedDict[tuple[object, ...], tuple[Schema, Reader, Schema]] = OrderedDict()
_lock = Lock()
_build_and_enter = AvroFile.__enter__


def share_readers() -> None:
    """Makes Avro files with the same schema and purpose share one reader in this process. A second call changes nothing."""
    AvroFile.__enter__ = _enter  # type: ignore[method-assign]


def _enter(file: AvroFile[Any]) -> AvroFile[Any]:
    """Opens the file as pyiceberg does, with the reader of an earlier file of this schema if there is one."""
    read_schema = file.read_schema
    if read_schema is None:
        return _build_and_enter(file)
    with file.input_file.open() as stream:
        file.decoder = new_decoder(stream.read())
    file.header = file._read_header()
    text = file.header.meta.get(_SCHEMA, "")
    # The entry holds the schema whose identity is in its key: no other object gets that identity meanwhile.
    key = (text, id(read_schema), tuple(file.read_types.items()), tuple(file.read_enums.items()))
    with _lock:
        shared = _readers.pop(key, None)
    if shared is None:
        schema = file.header.get_schema()
        shared = schema, resolve_reader(schema, read_schema, file.read_types, file.read_enums), read_schema
    with _lock:
        if len(text) <= LONGEST_SCHEMA:
            _readers[key] = shared
        while len(_readers) > REMEMBERED:
            _readers.popitem(last=False)
    file.schema, file.reader, _ = shared
    return file
