"""The bytes of a ReadTask, as the coordinator sends them and an executor reads them.

They are a header with the format version and the version of Lakeward, and a compressed pickle. Only the same version reads a pickle back.
The unpickler accepts no more than the values of a task consist of: dataclasses and enums of this package, schemas of pyiceberg and pyarrow.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tiering.errors import InvalidAnswer, PeerTooOld
from tiering.union_read.tasks import ReadTask

FORMAT_VERSION = 1
"""Grows when the header or the pickle's form changes. A change of the pickled classes needs no new number: their version is Lakeward's."""

PIECE_BYTES = 1 << 20
"""Upper bound of the tasks in one message. gRPC's clients accept 4 MiB by default."""

TASK_LIMIT_BYTES = 256 << 20
"""Upper bound of an uncompressed task. A task reads 64 MiB, and describes what it reads in far fewer bytes."""

_MAGIC = b"LWRT"
_HEADER = struct.Struct(">4sHH")
"""The magic bytes, the format version, and the length of the text of Lakeward's version."""

_OWN_PACKAGES = ("tiering.cluster.", "tiering.lake.", "tiering.model.", "tiering.union_read.")
_SCHEMA_MODULES = frozenset({"pyiceberg.schema", "pyiceberg.types"})
_SCHEMA_CONSTRUCTORS = frozenset({"schema", "field", "list_", "map_", "struct", "decimal128", "timestamp", "type_for_alias"})
"""The functions of pyarrow by which a pickled schema is built."""


def encode(task: ReadTask) -> bytes:
    """Returns the bytes of a task."""
    own_version = lakeward_version().encode()
    return _HEADER.pack(_MAGIC, FORMAT_VERSION, len(own_version)) + own_version + zlib.compress(pickle.dumps(task, protocol=5), 1)


def decode(data: bytes) -> ReadTask:
    """Returns the task. Raises PeerTooOld for bytes of another version, InvalidAnswer for bytes that are no task."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise InvalidAnswer("the bytes of a task of a read cannot be read: they do not begin as a task does")
    _, format_version, length = _HEADER.unpack_from(data)
    end = _HEADER.size + length
    peer_version = data[_HEADER.size : end].decode("utf-8", "replace")
    if (format_version, peer_version) != (FORMAT_VERSION, lakeward_version()):
        raise PeerTooOld(
            f"the task of a read was planned by Lakeward {peer_version} (format {format_version}), and this Python has Lakeward "
            f"{lakeward_version()} (format {FORMAT_VERSION})",
            hint="Install the service's version of the package lakeward for the Python of Spark's driver and executors.",
        )
    try:
        task = _Unpickler(io.BytesIO(_decompressed(data[end:]))).load()
    except InvalidAnswer:
        raise
    except Exception as error:  # an unpickler raises whatever the damaged bytes lead to
        raise InvalidAnswer(f"the bytes of a task of a read are damaged: {type(error).__name__}: {error}") from error
    if not isinstance(task, ReadTask):
        raise InvalidAnswer(f"the bytes of a task of a read hold a {type(task).__name__}")
    return task


def pieces(tasks: Sequence[ReadTask]) -> Iterator[tuple[list[bytes], bool]]:
    """Yields the encoded tasks in pieces of at most PIECE_BYTES, and whether the last task of the piece continues in the next one."""
    piece: list[bytes] = []
    size = 0
    for task in tasks:
        data = encode(task)
        while data:
            if size == PIECE_BYTES or (size and size + len(data) > PIECE_BYTES and len(data) <= PIECE_BYTES):
                yield piece, False
                piece, size = [], 0
            part, data = data[: PIECE_BYTES - size], data[PIECE_BYTES - size :]
            piece.append(part)
            size += len(part)
            if data:
                yield piece, True
                piece, size = [], 0
    if piece:
        yield piece, False


class TaskJoiner:
    """Joins the pieces of an answer to the bytes of whole tasks."""

    def __init__(self) -> None:
        self.tasks: list[bytes] = []
        self._begun = b""

    def add(self, piece: Sequence[bytes], last_continues: bool) -> None:
        """Adds the next piece."""
        parts = list(piece)
        if parts:
            parts[0] = self._begun + parts[0]
            self._begun = parts.pop() if last_continues else b""
        self.tasks += parts


@cache
def lakeward_version() -> str:
    """Returns the version of the installed package."""
    try:
        return version("lakeward")
    except PackageNotFoundError:
        return "unpackaged"


def _decompressed(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    content = stream.decompress(data, TASK_LIMIT_BYTES)
    if not stream.eof:
        raise InvalidAnswer(f"the bytes of a task of a read are cut, or have more than {TASK_LIMIT_BYTES} bytes uncompressed")
    return content


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns a class or function that a task may consist of. Raises InvalidAnswer for any other."""
        if "." not in name:
            if module.startswith(_OWN_PACKAGES):
                kind = super().find_class(module, name)
                if isinstance(kind, type) and kind.__module__ == module and (dataclasses.is_dataclass(kind) or issubclass(kind, Enum)):
                    return kind
            elif module in _SCHEMA_MODULES:
                kind = super().find_class(module, name)
                if isinstance(kind, type) and kind.__module__ == module:
                    return kind
            elif module == "pyarrow.lib" and name in _SCHEMA_CONSTRUCTORS:
                return super().find_class(module, name)
        raise InvalidAnswer(f"the bytes of a task of a read name {module}.{name}, which is no part of a task")
