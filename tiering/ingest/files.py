"""Parses files for ingest completely before their first row is used, in bounded memory.

A `Source` yields the raw rows of the files. They are cast to the table's columns and kept in a temporary Arrow file until the last row was
read. A value that does not fit raises InvalidData with file and line (for a Parquet file: file and row).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from pyarrow import ipc

from tiering.cluster.column_types import altered_schema, storable_schema
from tiering.cluster.key_columns import check_key_names
from tiering.cluster.rows import check_names
from tiering.errors import InvalidArgument, InvalidData, InvalidName, LakewardError, UnsupportedType
from tiering.ingest.csv_files import CsvSource
from tiering.ingest.formats import STANDARD_INPUT, FileFormat, Reading, format_of, rename_hint
from tiering.ingest.ndjson_files import NdjsonSource
from tiering.ingest.parquet_files import ParquetSource, lake_type
from tiering.ingest.plain_files import UTF8, PlainFile, plain_file, version_of
from tiering.ingest.text_types import CastFailure, ColumnInference, cast_batch, check_maps, check_partition_values, check_values
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo

_NO_ROWS_HINT = "Name the columns with their types: --schema 'id BIGINT, city STRING'."


class Source(Protocol):
    """One file, or several with the same columns, before their values are cast."""

    @property
    def name(self) -> str:
        """The name of the file in errors."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file. A column whose type the file does not define is text."""

    @property
    def text_types(self) -> tuple[pa.DataType, ...]:
        """The types that a text column can get from its values, the narrowest first; empty if text columns stay text."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows from the first one. Can be called several times."""

    def locate(self, row: int) -> str:
        """Returns the file and the place of a row (counted from 0) in it, as text for an error."""

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the file and the place of the columns that `check` refuses, as text for an error."""


@dataclass(frozen=True)
class ParsedFile:
    """A file that was read to its end and fits `schema`."""

    schema: pa.Schema
    rows: int
    spool: Path
    text_reasons: Mapping[str, str] = field(default_factory=dict)
    """Columns that became STRING although another type can hold all of their values, with the reason."""
    read_as: Sequence[str] = ()
    """The facts that were detected about the file itself: `the delimiter ';'`, `the encoding utf-16`."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows."""
        with pa.memory_map(str(self.spool)) as file, ipc.open_stream(file) as reader:
            yield from reader


@dataclass(frozen=True)
class Shape:
    """The columns that the rows must have: those of an existing table (`schema`), or what is known about the columns of a new table."""

    schema: pa.Schema | None = None
    required: Collection[str] = ()
    """Columns of a new table that are NOT NULL, in addition to the partition columns."""
    partition_keys: Collection[str] = ()
    may_lack: Collection[str] = ()
    """Columns of the table that a file need not have."""
    may_add: bool = False
    """Whether a file may have columns that the table lacks."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of new columns. They have precedence over the types in the file."""
    keys_of: TableInfo | None = None
    """The table whose rows are to be deleted. The file has the keys of these rows."""

    @property
    def known_columns(self) -> pa.Schema:
        """The columns whose types are known before the file is read."""
        table_columns = pa.schema([] if self.schema is None else self.schema)
        return pa.schema([*table_columns, *((name, kind) for name, kind in self.types.items() if name not in table_columns.names)])

    @property
    def known_names(self) -> Collection[str]:
        """The names of `known_columns`."""
        return self.known_columns.names

    def check(self, columns: pa.Schema) -> None:
        """Raises InvalidData if a file with these columns does not fit this table."""
        for name in self.types:
            if name not in columns.names:
                hint = f"The file's columns: {', '.join(columns.names)}."
                raise InvalidData(f"the column {name!r}, whose type is given, is missing", hint=hint, column=name)
        if self.keys_of is not None:
            check_key_names(columns, self.keys_of)
        if self.schema is not None:
            added = [field for field in columns if field.name not in self.schema.names] if self.may_add else []
            check_names(columns, pa.schema([*self.schema, *added]), self.may_lack)

    def complete(self, columns: pa.Schema) -> pa.Schema:
        """Returns the columns of rows from a file with these columns: the table's in the table's order, then new ones.

        Raises UnsupportedType, InvalidName.
        """
        if self.schema is None:
            return storable_schema(pa.schema([self._new_field(field) for field in columns]))
        added = [self._new_field(field).with_nullable(True) for field in columns if field.name not in self.schema.names]
        return pa.schema([field for field in altered_schema(self.schema, additions(added)) if field.name in columns.names])

    def _new_field(self, field: pa.Field[Any]) -> pa.Field[Any]:
        kind = self.types.get(field.name) or lake_type(field.type)
        if field.name in self.partition_keys:
            return pa.field(field.name, pa.int32() if kind == pa.int64() and field.name not in self.types else kind, nullable=False)
        return pa.field(field.name, kind, field.nullable and field.name not in self.required)


@contextmanager
def parsed_files(files: Sequence[str], reading: Reading | None = None, shape: Shape | None = None) -> Iterator[ParsedFile]:
    """Parses the files like one file. The temporary copy is deleted at the end of the block.

    `-` is the standard input; patterns match files. Without a shape the columns are those of the files. Whole numbers in partition columns
    of a new table become INT. Raises InvalidArgument (a file that does not exist), InvalidData (also for a value that cannot name a
    partition), UnsupportedType, InvalidName.
    """
    with TemporaryDirectory(prefix="lakeward-ingest-") as folder:
        names = named_files(files)
        try:
            versions = {file: version_of(file) for file in names}
            shape = shape or Shape()
            reading = reading or Reading()
            file_format = format_of(names, reading)
            is_text = file_format is not FileFormat.PARQUET
            plain = [plain_file(file, reading.encoding, is_text, Path(folder) / f"plain-{number}") for number, file in enumerate(names)]
            source = _open_source(plain, file_format, reading, shape)
            parsed = replace(_parse(source, shape, Path(folder), reading.null_texts), read_as=_detected(plain, source, reading))
            _check_unchanged(versions)
        except OSError as error:
            raise InvalidArgument(f"cannot parse {', '.join(names)[:500]}: {error.strerror or error}") from error
        yield parsed


def _check_unchanged(versions: Mapping[str, object]) -> None:
    """Raises InvalidData for a file that a program changed while it was parsed: its last row may be half a row."""
    for file, version in versions.items():
        if version_of(file) != version:
            raise InvalidData(f"{file} changed while it was read", hint="Load it after its program has finished writing, or load a copy.")


def read_csv(source: Path | BinaryIO) -> pa.Table:
    """Reads a whole CSV file into memory, with the types that `lakeward ingest` would find. Raises the errors of `parsed_files`."""
    if isinstance(source, Path):
        with parsed_files([str(source)], Reading(FileFormat.CSV)) as parsed:
            return pa.Table.from_batches(parsed.batches(), schema=parsed.schema)
    with TemporaryDirectory(prefix="lakeward-csv-") as folder:
        copy = Path(folder) / "input.csv"
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        return read_csv(copy)


def _open_source(files: Sequence[PlainFile], file_format: FileFormat, reading: Reading, shape: Shape) -> Source:
    if file_format is FileFormat.NDJSON:
        return NdjsonSource(files, shape.known_columns, reading.rename)
    sources: list[CsvSource] | list[ParquetSource]
    if file_format is FileFormat.CSV:
        sources = [CsvSource(file, reading, () if shape.schema is None else shape.schema.names) for file in files]
    else:
        sources = [ParquetSource(file, reading.rename) for file in files]
    return sources[0] if len(sources) == 1 else FileSequence(sources, shape.known_names)


def _detected(files: Sequence[PlainFile], source: Source, reading: Reading) -> list[str]:
    """Returns what was detected without an option and matters to a user: an unusual delimiter or encoding."""
    encodings = {file.encoding for file in files} - {UTF8}
    delimiters = source.delimiters - {","} if isinstance(source, CsvSource | FileSequence) else set()
    return [
        *(f"the delimiter {delimiter!r}" for delimiter in sorted(delimiters) if reading.delimiter is None),
        *(f"the encoding {encoding}" for encoding in sorted(encodings) if reading.encoding is None),
    ]


def named_files(words: Sequence[str]) -> list[str]:
    """Returns the files that a user names; replaces a pattern such as `data/*.csv` by the files that match it. Raises InvalidArgument."""
    files: list[str] = []
    for word in words:
        if not has_magic(word) or Path(word).exists():
            files.append(word)
            continue
        matching = sorted(glob(word, recursive=True))
        if not matching:
            raise InvalidArgument(f"no file matches {word}", hint="Put a pattern in quotes: 'data/*.csv'.")
        files += matching
    if files.count(STANDARD_INPUT) > 1:
        raise InvalidArgument("the standard input is given twice", hint="Standard input can be read only once.")
    return files


def _parse(source: Source, shape: Shape, folder: Path, null_texts: Sequence[str]) -> ParsedFile:
    columns = source.schema  # errors of `schema` name the file already
    if not columns.names:
        raise InvalidData(f"{source.name} has no columns", hint='Each NDJSON line is an object with keys, such as {"id": 1}.')
    _check_columns(source, shape)
    spooling = _Spooling(source, shape.partition_keys, folder, null_texts)
    undecided = [field for field in columns if pa.types.is_string(field.type) and field.name not in shape.known_names]
    if not undecided or not source.text_types:
        return spooling.cast_all(spooling.batches(), shape.complete(columns))
    # The types are known only after the last row. Until then the text is kept in a file, so that the source is read once.
    raw = folder / "raw.arrow"
    inferences = {field.name: ColumnInference(source.text_types, null_texts) for field in undecided}
    rows = _spool(raw, columns, _observed(spooling.batches(), inferences))
    if not rows:
        raise InvalidData(f"{source.name} has no rows, so the types of its columns are unknown", hint=_NO_ROWS_HINT)
    kinds = [field.with_type(inferences[field.name].kind) if field.name in inferences else field for field in columns]
    with pa.memory_map(str(raw)) as mapped, ipc.open_stream(mapped) as reader:
        parsed = spooling.cast_all(reader, shape.complete(pa.schema(kinds)))
    raw.unlink()
    return replace(parsed, text_reasons={name: inference.text_reason for name, inference in inferences.items() if inference.text_reason})


def _check_columns(source: Source, shape: Shape) -> None:
    """Raises the error with which the shape refuses the file's columns, with file and line."""

    def check(columns: pa.Schema) -> None:
        shape.check(columns)
        shape.complete(columns)

    try:
        check(source.schema)
    except (InvalidData, InvalidName, InvalidArgument, UnsupportedType) as error:
        is_missing = error.ids.get("column") in {*shape.known_names} - {*source.schema.names}
        place = source.name if is_missing else source.locate_refused(check)
        hint = error.hint
        if isinstance(error, InvalidName):
            hint = f"{hint} {rename_hint(source.schema.names)}".strip()
        if isinstance(error, UnsupportedType) and (name := _castable_to_text(source.schema, error)):
            hint = f"{hint} --type {name}=STRING stores its values as text."
        raise type(error)(f"{place}: {error.message}", hint=hint, **error.ids) from error


def _castable_to_text(columns: pa.Schema, error: LakewardError) -> str:
    """Returns the name of the refused column if it holds times of day or durations; an empty text for other columns."""
    name = error.ids.get("column") or ""
    kind = columns.field(name).type if name in columns.names else pa.null()
    return name if pa.types.is_time(kind) or pa.types.is_duration(kind) else ""


def _observed(batches: Iterable[pa.RecordBatch], inferences: Mapping[str, ColumnInference]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for name, inference in inferences.items():
            inference.see(batch.column(name))
        yield batch


@dataclass(frozen=True)
class _Spooling:
    """Writes cast rows to the temporary file. The error for a value that does not fit names the place in the source."""

    source: Source
    partition_keys: Collection[str]
    folder: Path
    null_texts: Sequence[str]

    def cast_all(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> ParsedFile:
        spool = self.folder / "rows.arrow"
        return ParsedFile(schema, _spool(spool, schema, self._cast(batches, schema)), spool)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the source's batches after a check of their values. Raises InvalidData."""
        before = 0
        for batch in self.source.batches():
            with self._located(before):
                check_values(batch)
            yield batch
            before += batch.num_rows

    def _cast(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        before = 0
        for batch in batches:
            with self._located(before):
                fitting = cast_batch(batch, schema, self.null_texts)
                check_partition_values(fitting, self.partition_keys)
                check_maps(fitting)
            yield fitting
            before += batch.num_rows

    @contextmanager
    def _located(self, before: int) -> Iterator[None]:
        """Converts a misfit in a batch that follows `before` rows into InvalidData, which names the place in the file."""
        try:
            yield
        except CastFailure as misfit:
            reason = f"{self.source.locate(before + misfit.row)}: column {misfit.column!r}: {misfit.reason}"
            raise InvalidData(reason, hint=misfit.hint, column=misfit.column) from misfit
        except InvalidData as error:
            raise InvalidData(f"{self.source.name}: {error.message}", hint=error.hint, **error.ids) from error


def _spool(target: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    rows = 0
    with ipc.new_stream(str(target), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


class FileSequence:
    """CSV or Parquet files as one `Source`: all rows of the first file, then those of the next. Each file has the columns of the first
    one.
    """

    def __init__(self, sources: Sequence[CsvSource] | Sequence[ParquetSource], typed_columns: Collection[str] = ()) -> None:
        """`typed_columns` are names of columns whose types are given, so that the types in the files do not count."""
        self._sources = sources
        self.name = sources[0].name
        self.text_types = sources[0].text_types
        for source in sources[1:]:
            self._check_names(source)
        self.schema = pa.schema([field if field.name in typed_columns else self._unified(field) for field in sources[0].schema])
        self._rows: list[int] = []
        """Number of rows of each file that was read to its end."""

    def _unified(self, field: pa.Field[Any]) -> pa.Field[Any]:
        """Returns the column with a type that holds the values of all files. Raises InvalidData."""
        for source in self._sources[1:]:
            fields = [pa.schema([column.with_type(lake_type(column.type))]) for column in (field, source.schema.field(field.name))]
            try:
                field = pa.unify_schemas(fields, promote_options="permissive").field(0)
            except pa.ArrowException as error:
                kind = source.schema.field(field.name).type
                raise InvalidData(
                    f"{source.file}: column {field.name!r} is {kind}, but {field.type} in the files before",
                    hint=f"Choose its type, for example with --type {field.name}=STRING.",
                    column=field.name,
                ) from error
        return field

    @property
    def delimiters(self) -> set[str]:
        """The delimiters of the CSV files."""
        return {delimiter for source in self._sources if isinstance(source, CsvSource) for delimiter in source.delimiters}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows, with the columns in the order of the first file."""
        self._rows = []
        names = self._sources[0].schema.names
        for source in self._sources:
            rows = 0
            for batch in source.batches():
                yield batch.select(names)
                rows += batch.num_rows
            self._rows.append(rows)

    def locate(self, row: int) -> str:
        """Returns the place of a row (counted from 0 over all files)."""
        number = 0
        while number < len(self._rows) and row >= self._rows[number]:
            row -= self._rows[number]
            number += 1
        return self._sources[number].locate(row)

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the place of the column names in the first file."""
        return self._sources[0].locate_refused(check)

    def _check_names(self, source: CsvSource | ParquetSource) -> None:
        first, names = self._sources[0].schema.names, source.schema.names
        for name in first:
            if name not in names:
                raise InvalidData(f"{source.file}: the column {name!r} is missing, which {self._sources[0].file} has", column=name)
        for name in names:
            if name not in first:
                raise InvalidData(f"{source.file}: {self._sources[0].file} has no column {name!r}", column=name)
