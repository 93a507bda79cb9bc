"""The formats that `lakeward ingest` reads, and how a user says what the files are like."""

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
    """How a file is read."""

    PARQUET = "parquet"
    CSV = "csv"
    NDJSON = "ndjson"


STANDARD_INPUT = "-"
NULL_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Unquoted texts that mean null in a CSV file, unless the user names others: R and pandas write these."""

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
    """None: by the files' endings."""
    delimiter: str | None = None
    """The character between two values of a CSV file. None: found in the first lines."""
    encoding: str | None = None
    """The encoding of text files, by Python's name. None: UTF-8, or what the byte order mark says."""
    has_header: bool | None = None
    """Whether the first line of a CSV file names the columns. None: yes, unless it looks like values."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """New names of columns by the names that they have in the file."""
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
        raise InvalidArgument(
            f"--delimiter {text!r} is not one ASCII character", hint="Name it like this: --delimiter ';', or --delimiter tab."
        )
    return delimiter


def format_of(files: Sequence[str], reading: Reading) -> FileFormat:
    """Returns the one format that the files have. Raises InvalidArgument."""
    file_format = reading.file_format
    if file_format is None:
        formats = {file: _format_by_ending(file) for file in files}
        if len(set(formats.values())) > 1:
            listed = ", ".join(f"{file} is {kind}" for file, kind in formats.items())
            raise InvalidArgument(f"the files have different formats: {listed[:300]}", hint="Load the files of each format by themselves.")
        file_format = next(iter(formats.values()))
    csv_options = {"--delimiter": reading.delimiter, "--header": reading.has_header, "--null": reading.null}
    of_csv = [name for name, value in csv_options.items() if value is not None]
    of_text = [*of_csv, *(["--encoding"] if reading.encoding is not None else [])]
    misplaced = {FileFormat.CSV: [], FileFormat.NDJSON: of_csv, FileFormat.PARQUET: of_text}[file_format]
    if reading.has_header is False and reading.rename:
        raise InvalidArgument("--rename and --no-header are both there", hint="Say the names with --schema.")
    if misplaced:
        raise InvalidArgument(f"{misplaced[0]} has no meaning for a file of the format {file_format}", hint="Leave it out.")
    return file_format


def check_no_folder(file: str) -> None:
    """Raises InvalidArgument for a folder: its files are named one by one, or by a pattern."""
    if Path(file).is_dir():
        raise InvalidArgument(f"{file} is a folder", hint=f"Name its files: {shlex.quote(f'{Path(file)}/*.csv')}")


def _format_by_ending(file: str) -> FileFormat:
    check_no_folder(file)
    path = Path(file)
    ending = (Path(path.stem) if path.suffix.lower() in _COMPRESSED else path).suffix.lower()
    if ending not in _ENDINGS:
        unknown = (
            "the standard input has no name that tells its format"
            if file == STANDARD_INPUT
            else f"cannot tell the format of {file} by its ending"
        )
        endings = ", ".join(_ENDINGS)
        raise InvalidArgument(
            unknown,
            hint=f"Say which with --file-format {', '.join(FileFormat)}; or use {endings}, also with {' or '.join(_COMPRESSED)} behind.",
        )
    return _ENDINGS[ending]


def renamed(names: Sequence[str], rename: Mapping[str, str], file: str) -> list[str]:
    """Returns the names with the new ones in their place. Raises InvalidArgument for a name that the file lacks."""
    check_rename(names, rename, file)
    return [rename.get(name, name) for name in names]


def check_rename(names: Sequence[str], rename: Mapping[str, str], file: str) -> None:
    """Raises InvalidArgument for a name that the file lacks, and where two columns would have one name."""
    for name, new in rename.items():
        if name not in names:
            raise InvalidArgument(
                f"--rename {name!r}: {file} has no such column", hint=f"Its columns: {', '.join(map(repr, names))[:500]}."
            )
        if new in names and new not in rename:
            raise InvalidArgument(
                f"--rename {name!r}: {file} has a column {new!r} already", hint="Rename that one too, or take another name."
            )


def rename_hint(names: Sequence[str]) -> str:
    """Returns the options that give each name which no column can have a name that it can have; empty if there is none."""
    taken = {folded_name(name) for name in names if _is_valid(name)}
    passed: set[str] = set()
    pairs: list[str] = []
    for number, name in enumerate(names, start=1):
        if not _is_valid(name) or folded_name(name) in passed:
            new = _free_name(name, number, taken)
            taken.add(folded_name(new))
            pairs.append(f"{name}={new}")
        passed.add(folded_name(name))
    return "Rename it: " + " ".join(f"--rename {shlex.quote(pair)}" for pair in pairs) if pairs else ""


def _is_valid(name: str) -> bool:
    try:
        check_name(name, "column")
    except InvalidName:
        return False
    return True


def _free_name(name: str, number: int, taken: Collection[str]) -> str:
    """Returns a valid name like that of a column, which stands in the file as the `number`th, and that no other column has."""
    new = _NO_NAME_CHARACTERS.sub("_", name).strip("_")[:100] or f"column_{number}"
    while folded_name(new) in taken:
        new = f"{new}_{number}"
    return new
