"""The file formats that `lakeward ingest` reads, and the options that describe the files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tiering.errors import InvalidArgument, InvalidName
from tiering.lake.column_names import folded_name
from tiering.model.names import check_name


class FileFormat(StrEnum):
    """The format of a file."""

    PARQUET = "parquet"
    CSV = "csv"
    NDJSON = "ndjson"


STANDARD_INPUT = "-"
NULL_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Unquoted texts that mean null in a CSV file, unless the user names others. R and pandas write these texts."""

_ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.CSV,
    ".ndjson": FileFormat.NDJSON,
    ".jsonl": FileFormat.NDJSON,
    ".json": FileFormat.NDJSON,
}
_COMPRESSED = (".gz", ".zst")

_NO_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_DELIMITER_WORDS = {"tab": "\t", r"\t": "\t"}


@dataclass(frozen=True)
class Reading:
    """How files are read."""

    file_format: FileFormat | None = None
    """Format of the files; None = from their extensions."""
    delimiter: str | None = None
    """The delimiter of a CSV file. None: detected in the first lines."""
    encoding: str | None = None
    """The encoding of text files, with Python's name. None: UTF-8, or the encoding of the byte order mark."""
    has_header: bool | None = None
    """Whether the first line of a CSV file has the column names. None: yes, and an error if it looks like values."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """New names of columns by the names in the file."""
    null: Sequence[str] | None = None
    """Unquoted texts that mean null in a CSV file. None: `NULL_TEXTS`."""

    @property
    def null_texts(self) -> Sequence[str]:
        """Unquoted texts that mean null."""
        return NULL_TEXTS if self.null is None else self.null


def read_delimiter(text: str) -> str:
    """Returns the delimiter that a user names: one ASCII character, or `tab`. Raises InvalidArgument."""
    delimiter = _DELIMITER_WORDS.get(text.lower(), text)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise InvalidArgument(f"--delimiter {text!r} is not one ASCII character", hint="Examples: --delimiter ';' and --delimiter tab.")
    return delimiter


def format_of(files: Sequence[str], reading: Reading) -> FileFormat:
    """Returns the common format of the files. Raises InvalidArgument."""
    file_format = reading.file_format
    if file_format is None:
        formats = {file: _format_by_ending(file) for file in files}
        if len(set(formats.values())) > 1:
            listed = ", ".join(f"{file} is {kind}" for file, kind in formats.items())
            raise InvalidArgument(f"the files have different formats: {listed[:300]}", hint="Load the files of each format separately.")
        file_format = next(iter(formats.values()))
    csv_options = {"--delimiter": reading.delimiter, "--header": reading.has_header, "--null": reading.null}
    of_csv = [name for name, value in csv_options.items() if value is not None]
    of_text = [*of_csv, *(["--encoding"] if reading.encoding is not None else [])]
    misplaced = {FileFormat.CSV: [], FileFormat.NDJSON: of_csv, FileFormat.PARQUET: of_text}[file_format]
    if reading.has_header is False and reading.rename:
        raise InvalidArgument("--rename and --no-header cannot be used together", hint="Name the columns with --schema.")
    if misplaced:
        raise InvalidArgument(f"{misplaced[0]} has no meaning for a file in the format {file_format}", hint="Leave it out.")
    return file_format


def check_no_folder(file: str) -> None:
    """Raises InvalidArgument for a folder. A user names files one by one, or by a pattern."""
    if Path(file).is_dir():
        raise InvalidArgument(f"{file} is a folder", hint=f"Name its files: {shlex.quote(f'{Path(file)}/*.csv')}")


def _format_by_ending(file: str) -> FileFormat:
    check_no_folder(file)
    path = Path(file)
    ending = (Path(path.stem) if path.suffix.lower() in _COMPRESSED else path).suffix.lower()
    if ending not in _ENDINGS:
        message = (
            "the standard input has no name that shows its format"
            if file == STANDARD_INPUT
            else f"the extension of {file} does not show its format"
        )
        endings = ", ".join(_ENDINGS)
        raise InvalidArgument(
            message,
            hint=f"Give --file-format {', '.join(FileFormat)}, or use {endings}; {' or '.join(_COMPRESSED)} may follow.",
        )
    return _ENDINGS[ending]


def renamed(names: Sequence[str], rename: Mapping[str, str], file: str) -> list[str]:
    """Returns the names with the new names in their places. Raises InvalidArgument for a name that the file lacks."""
    check_rename(names, rename, file)
    return [rename.get(name, name) for name in names]


def check_rename(names: Sequence[str], rename: Mapping[str, str], file: str) -> None:
    """Raises InvalidArgument for a name that the file lacks, or if two columns would have the same name."""
    for name, new in rename.items():
        if name not in names:
            raise InvalidArgument(
                f"--rename {name!r}: {file} has no such column", hint=f"The file's columns: {', '.join(map(repr, names))[:500]}."
            )
        if new in names and new not in rename:
            raise InvalidArgument(
                f"--rename {name!r}: {file} already has a column {new!r}", hint="Rename that column too, or choose another name."
            )


def rename_hint(names: Sequence[str]) -> str:
    """Returns the options that replace each invalid column name by a valid one; an empty text if all names are valid."""
    used_names = {folded_name(name) for name in names if _is_valid(name)}
    passed: set[str] = set()
    pairs: list[str] = []
    for number, name in enumerate(names, start=1):
        if not _is_valid(name) or folded_name(name) in passed:
            new = _free_name(name, number, used_names)
            used_names.add(folded_name(new))
            pairs.append(f"{name}={new}")
        passed.add(folded_name(name))
    return "Rename it: " + " ".join(f"--rename {shlex.quote(pair)}" for pair in pairs) if pairs else ""


def _is_valid(name: str) -> bool:
    try:
        check_name(name, "column")
    except InvalidName:
        return False
    return True


def _free_name(name: str, number: int, used_names: Collection[str]) -> str:
    """Returns a valid name similar to that of the `number`th column of the file. No other column has this name."""
    new = _NO_NAME_CHARACTERS.sub("_", name).strip("_")[:100] or f"column_{number}"
    while folded_name(new) in used_names:
        new = f"{new}_{number}"
    return new
