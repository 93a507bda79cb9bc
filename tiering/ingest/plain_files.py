"""Turns the user's files into plain files for the parsers: uncompressed, and text as UTF-8.

A compressed file, and a file with another encoding, is copied once into a temporary folder. So are the standard input and pipes, which can
be read only once. Lines keep their numbers, so that errors name the lines of the user's file.
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

NOT_UTF8_HINT = "Name the encoding of the file, for example --encoding latin-1, --encoding cp1252 or --encoding utf-16."

_CHUNK_BYTES = 1024 * 1024
_COMPRESSIONS: dict[bytes, Literal["gzip", "zstd"]] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""Compressions by the first bytes of such files (RFC 1952, RFC 8878)."""
_BINARY_FORMATS = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "Unpack it, or save the sheet as CSV."),
    b"PAR1": ("a Parquet file", "Use --file-format parquet."),
}
"""Files that users often give as text files, by their first bytes, with the advice for the user."""
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by byte order mark. The longest marks come first, because the mark of UTF-32 begins like that of UTF-16."""
UTF8 = "utf-8"


@dataclass(frozen=True)
class PlainFile:
    """A file that the parsers can read from `path`; errors call it `name`."""

    name: str
    path: Path
    encoding: str = UTF8
    """The encoding of the file before it was copied."""

    def __str__(self) -> str:
        return self.name


def plain_file(file: str, encoding: str | None, is_text: bool, copy: Path) -> PlainFile:
    """Returns the file itself if it is plain, otherwise its plain `copy`. Raises InvalidArgument and InvalidData."""
    name = "standard input" if file == STANDARD_INPUT else file
    given_encoding = None if encoding is None else _known_encoding(encoding)
    with _opened(file) as raw:
        compression = next((kind for magic, kind in _COMPRESSIONS.items() if raw.peek(4).startswith(magic)), None)
        try:
            stream = raw if compression is None else _decompressed(raw, compression)
            if is_text:
                _check_is_text(name, stream)
            actual = given_encoding or (_encoding_by_mark(stream) if is_text else UTF8)
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
    """Returns values that change when a program writes to the file; None if it is not a regular file. Raises OSError."""
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
            f"there is no encoding {encoding!r}", hint="Common encodings are utf-8, utf-16, latin-1 and cp1252."
        ) from error
    return UTF8 if name == "utf-8-sig" else name


def _encoding_by_mark(stream: io.BufferedReader) -> str:
    start = stream.peek(4)
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), UTF8)


def _check_is_text(name: str, stream: io.BufferedReader) -> None:
    start = stream.peek(4)
    for magic, (kind, hint) in _BINARY_FORMATS.items():
        if start.startswith(magic):
            raise InvalidData(f"{name} is {kind}, not a text file", hint=hint)


def _copy(name: str, stream: BinaryIO, target: BinaryIO, encoding: str) -> None:
    """Copies a stream as UTF-8. Raises InvalidData, which names the line, for bytes that are invalid in the encoding."""
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
