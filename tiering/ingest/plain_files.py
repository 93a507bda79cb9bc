"""Files as the parsers read them: uncompressed, text as UTF-8.

A file that is compressed or has another encoding is copied once into a temporary folder, and so is what can be read only once: the standard
input and pipes. Lines keep their numbers, so errors name the lines of the file that the user has.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

import pyarrow as pa

from tiering.errors import InvalidArgument, InvalidData
from tiering.ingest.formats import STANDARD_INPUT, check_no_folder

NOT_UTF8_HINT = "Say what the file is encoded in, for example --encoding latin-1, --encoding cp1252 or --encoding utf-16."

_CHUNK_BYTES = 1024 * 1024
_COMPRESSIONS: dict[bytes, Literal["gzip", "zstd"]] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""Compressions by the bytes that such files begin with (RFC 1952, RFC 8878)."""
_NO_TEXTS = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "Unpack it, or save the sheet as CSV."),
    b"PAR1": ("a Parquet file", "Say --file-format parquet."),
}
"""Files that are often named as text, by the bytes that they begin with, with what to do."""
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The longest come first: the mark of UTF-32 begins like that of UTF-16."""
UTF8 = "utf-8"


@dataclass(frozen=True)
class PlainFile:
    """A file that the parsers can read from `path`; errors call it `name`."""

    name: str
    path: Path
    encoding: str = UTF8
    """The encoding that the file had before it was copied."""

    def __str__(self) -> str:
        return self.name


def plain_file(file: str, encoding: str | None, is_text: bool, copy: Path) -> PlainFile:
    """Returns a file, or its plain `copy` where it is not plain itself. Raises InvalidArgument and InvalidData."""
    name = "standard input" if file == STANDARD_INPUT else file
    wanted = None if encoding is None else _known_encoding(encoding)
    with _opened(file) as raw:
        compression = next((kind for magic, kind in _COMPRESSIONS.items() if raw.peek(4).startswith(magic)), None)
        try:
            stream = raw if compression is None else _decompressed(raw, compression)
            if is_text:
                _check_is_text(name, stream)
            actual = wanted or (_encoding_by_mark(stream) if is_text else UTF8)
            if compression is None and actual == UTF8 and Path(file).is_file():
                return PlainFile(name, Path(file))
            with copy.open("wb") as target:
                _copy(name, stream, target, actual)
        except (pa.ArrowException, EOFError) as error:
            raise InvalidData(f"{name} is damaged: {error}") from error
    return PlainFile(name, copy, actual)


def _decompressed(raw: io.BufferedReader, compression: Literal["gzip", "zstd"]) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, pa.CompressedInputStream(pa.PythonFile(raw, "r"), compression)))


def version_of(file: str) -> tuple[int, int, int] | None:
    """Returns what differs after a program wrote to a file; None for what is no regular file. Raises OSError."""
    path = Path(file)
    if file == STANDARD_INPUT or not path.is_file():
        return None
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _opened(file: str) -> Iterator[io.BufferedReader]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer  # type: ignore[misc]
        return
    path = Path(file)
    check_no_folder(file)
    if not path.exists():
        raise InvalidArgument(f"there is no file {file}")
    with path.open("rb") as raw:
        yield raw


def _known_encoding(encoding: str) -> str:
    """Returns Python's name of an encoding. Raises InvalidArgument."""
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise InvalidArgument(
            f"there is no encoding {encoding!r}", hint="Well-known ones are utf-8, utf-16, latin-1 and cp1252."
        ) from error
    return UTF8 if name == "utf-8-sig" else name


def _encoding_by_mark(stream: io.BufferedReader) -> str:
    start = stream.peek(4)
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), UTF8)


def _check_is_text(name: str, stream: io.BufferedReader) -> None:
    start = stream.peek(4)
    for magic, (kind, hint) in _NO_TEXTS.items():
        if start.startswith(magic):
            raise InvalidData(f"{name} is {kind}, and no text", hint=hint)


def _copy(name: str, stream: BinaryIO, target: BinaryIO, encoding: str) -> None:
    """Copies a stream as UTF-8. Raises InvalidData for bytes that the encoding does not have, naming their line."""
    if encoding == UTF8:
        while chunk := stream.read(_CHUNK_BYTES):
            target.write(chunk)
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 0
    try:
        while chunk := stream.read(_CHUNK_BYTES):
            text = decoder.decode(chunk)
            lines += text.count("\n")
            target.write(text.encode())
        target.write(decoder.decode(b"", final=True).encode())
    except UnicodeError as error:
        if isinstance(error, UnicodeDecodeError):
            lines += error.object[: error.start].decode(error.encoding, "replace").count("\n")
        raise InvalidData(f"{name}, line {lines + 1}: the text is not {encoding}", hint=NOT_UTF8_HINT) from error
