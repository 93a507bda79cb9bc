"""Files that can be ingested, parsed as a whole before a row of them is used (DESIGN 12), in bounded memory.

A `Source` gives raw batches; they are cast to the table's columns and kept in a temporary Arrow file until the last row was
read. Whatever does not fit raises InvalidData with file and line (of a Parquet file: row).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from pyarrow import ipc
from pyarrow import parquet as pq

from tiering.cluster.embedded.kv.primary_keys import check_key_names
from tiering.cluster.embedded.log.batches import check_names
from tiering.cluster.embedded.metadata.types import storable_schema, with_columns
from tiering.errors import InvalidArgument, InvalidData, InvalidName, UnsupportedType
from tiering.ingest.csv_files import CsvSource
from tiering.ingest.formats import FileFormat as FileFormat  # its callers know it from here
from tiering.ingest.ndjson_files import NdjsonSource
from tiering.ingest.text_types import ColumnInference, Misfit, cast_batch, check_maps, check_partition_values, check_values
from tiering.library_guards.arrow_ipc import check_names_are_text
from tiering.model.tables import TableInfo

PARQUET_BATCH_ROWS = 65_536


_ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".ndjson": FileFormat.NDJSON,
    ".jsonl": FileFormat.NDJSON,
}


class Source(Protocol):
    """One file, before its values are cast."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file; those whose type the file does not tell are text."""
        ...

    @property
    def text_types(self) -> tuple[pa.DataType, ...]:
        """The types that a text column may turn out to have, the narrowest first; empty if text stays text."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows from the first; may be called again."""
        ...

    def locate(self, row: int) -> str:
        """Returns where a row (counted from 0) stands, in words for a person."""
        ...

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns where the columns stand that `check` refuses, in words for a person; empty if the file as a whole is refused."""
        ...


@dataclass(frozen=True)
class ParsedFile:
    """A file that was read to its end and fits `schema`."""

    schema: pa.Schema
    rows: int
    spool: Path

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows."""
        with pa.memory_map(str(self.spool)) as file, ipc.open_stream(file) as reader:
            yield from reader


def format_of(file: Path) -> FileFormat:
    """Returns the format that the file's ending names. Raises InvalidArgument."""
    file_format = _ENDINGS.get(file.suffix.lower())
    if file_format is None:
        raise InvalidArgument(
            f"cannot tell the format of {file} by its ending", hint=f"Say which: {', '.join(FileFormat)}; or use {', '.join(_ENDINGS)}."
        )
    return file_format


@dataclass(frozen=True)
class Shape:
    """What the rows have to look like: the columns of a table that exists (`schema`), or what is known of one that will be created."""

    schema: pa.Schema | None = None
    required: Collection[str] = ()
    """Columns of a new table that are NOT NULL, beside those that make its partitions."""
    partition_keys: Collection[str] = ()
    may_lack: Collection[str] = ()
    """Columns of the table that a file need not have."""
    may_add: bool = False
    """Whether a file may have columns that the table lacks."""
    keys_of: TableInfo | None = None
    """Its rows are keys of this table, to be deleted."""

    @property
    def known(self) -> Collection[str]:
        """The columns whose types are known before the file is read."""
        return () if self.schema is None else self.schema.names

    def check(self, columns: pa.Schema) -> None:
        """Raises InvalidData if a file with the columns `found` cannot be for this table."""
        if self.keys_of is not None:
            check_key_names(columns, self.keys_of)
        if self.schema is not None:
            added = [field for field in columns if field.name not in self.known] if self.may_add else []
            check_names(columns, pa.schema([*self.schema, *added]), self.may_lack)

    def complete(self, columns: pa.Schema) -> pa.Schema:
        """Returns the columns that rows of such a file have: the table's, in its order, then new ones. Raises UnsupportedType,
        InvalidName.
        """
        if self.schema is None:
            return storable_schema(pa.schema([self._new_field(field) for field in columns]))
        added = [field.with_nullable(True) for field in columns if field.name not in self.known]
        return pa.schema([field for field in with_columns(self.schema, added) if field.name in columns.names])

    def _new_field(self, field: pa.Field[Any]) -> pa.Field[Any]:
        if field.name in self.partition_keys:
            return pa.field(field.name, pa.int32() if field.type == pa.int64() else field.type, nullable=False)
        return field.with_nullable(field.nullable and field.name not in self.required)


@contextmanager
def parsed_file(file: Path, file_format: FileFormat | None = None, shape: Shape | None = None) -> Iterator[ParsedFile]:
    """The file, parsed; its temporary copy lives as long as the block.

    Without a shape the columns are the file's own. Whole numbers in partition columns of a new table become INT. Raises
    InvalidArgument (no such file), InvalidData (also for a value that cannot name a partition), UnsupportedType, InvalidName.
    """
    with TemporaryDirectory(prefix="lakeward-ingest-") as folder:
        try:
            shape = shape or Shape()
            source = _open_source(file, file_format or format_of(file), shape)
            parsed = _parse(file, source, shape, Path(folder))
        except OSError as error:
            raise InvalidArgument(f"cannot parse {file}: {error.strerror or error}") from error
        yield parsed


def read_csv(source: Path | BinaryIO) -> pa.Table:
    """A whole CSV file in memory, its types found as `lakeward ingest` finds them. Raises as `parsed_file`."""
    if isinstance(source, Path):
        with parsed_file(source, FileFormat.CSV) as parsed:
            return pa.Table.from_batches(parsed.batches(), schema=parsed.schema)
    with TemporaryDirectory(prefix="lakeward-csv-") as folder:
        copy = Path(folder) / "input.csv"
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        return read_csv(copy)


class ParquetSource:
    """One Parquet file as a `Source`, with the types that the file has."""

    text_types = ()

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._parquet = pq.ParquetFile(file)
            check_names_are_text(self._parquet.schema_arrow)
        except (pa.ArrowException, InvalidData, UnicodeDecodeError) as error:
            raise InvalidData(f"{file} is not a Parquet file: {error}") from error
        self.schema = pa.schema([_decoded(field) for field in self._parquet.schema_arrow])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows. Raises InvalidData."""
        try:
            for batch in self._parquet.iter_batches(PARQUET_BATCH_ROWS):
                yield batch.cast(self.schema)
        except (pa.ArrowException, OSError) as error:
            raise InvalidData(f"{self._file} is damaged: {error}") from error

    def locate(self, row: int) -> str:
        """Returns where a row stands, such as `row 17`, counted from 1."""
        return f"row {row + 1}"

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns nothing: a Parquet file has its columns as a whole."""
        return ""


def _decoded(field: pa.Field[Any]) -> pa.Field[Any]:
    """Returns the field without the dictionary encoding that pandas writes categories with."""
    kind = field.type
    return pa.field(field.name, kind.value_type if isinstance(kind, pa.DictionaryType) else kind, field.nullable)


def _open_source(file: Path, file_format: FileFormat, shape: Shape) -> Source:
    if not file.is_file():
        raise InvalidArgument(f"there is no file {file}")
    if file_format is FileFormat.CSV:
        return CsvSource(file)
    return NdjsonSource(file, shape.schema) if file_format is FileFormat.NDJSON else ParquetSource(file)


def _parse(file: Path, source: Source, shape: Shape, folder: Path) -> ParsedFile:
    columns = source.schema  # its own errors name the file already
    _check_columns(file, source, shape)
    spooling = _Spooling(file, source, shape.partition_keys, folder)
    undecided = [field for field in columns if pa.types.is_string(field.type) and field.name not in shape.known]
    if not undecided or not source.text_types:
        return spooling.cast_all(spooling.batches(), shape.complete(columns))
    # Types are known at the last row only: keep the text until then, so that the file is read once.
    raw = folder / "raw.arrow"
    inferences = {field.name: ColumnInference(source.text_types) for field in undecided}
    _spool(raw, columns, _observed(spooling.batches(), inferences))
    kinds = [field.with_type(inferences[field.name].kind) if field.name in inferences else field for field in columns]
    with pa.memory_map(str(raw)) as mapped, ipc.open_stream(mapped) as reader:
        parsed = spooling.cast_all(reader, shape.complete(pa.schema(kinds)))
    raw.unlink()
    return parsed


def _check_columns(file: Path, source: Source, shape: Shape) -> None:
    """Raises the shape's refusal of the file's columns, with file and line."""

    def check(columns: pa.Schema) -> None:
        shape.check(columns)
        shape.complete(columns)

    try:
        check(source.schema)
    except (InvalidData, InvalidName, InvalidArgument, UnsupportedType) as error:
        is_missing = error.ids.get("column") in {*shape.known} - {*source.schema.names}
        place = "" if is_missing else source.locate_refused(check)
        raise type(error)(f"{file}{place and ', '}{place}: {error.message}", hint=error.hint, **error.ids) from error


def _observed(batches: Iterable[pa.RecordBatch], inferences: Mapping[str, ColumnInference]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for name, inference in inferences.items():
            inference.see(batch.column(name))
        yield batch


@dataclass(frozen=True)
class _Spooling:
    """Writes cast rows to the temporary file; names a value that does not fit by where it stands in the source."""

    file: Path
    source: Source
    partition_keys: Collection[str]
    folder: Path

    def cast_all(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> ParsedFile:
        spool = self.folder / "rows.arrow"
        return ParsedFile(schema, _spool(spool, schema, self._cast(batches, schema)), spool)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the source's batches with each value cast to its column's type. Raises InvalidData."""
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
                fitting = cast_batch(batch, schema)
                check_partition_values(fitting, self.partition_keys)
                check_maps(fitting)
            yield fitting
            before += batch.num_rows

    @contextmanager
    def _located(self, before: int) -> Iterator[None]:
        """Turns a misfit in the batch that follows `before` rows into an InvalidData that says where it stands."""
        try:
            yield
        except Misfit as misfit:
            where = self.source.locate(before + misfit.row)
            reason = f"{self.file}, {where}: column {misfit.column!r}: {misfit.reason}"
            raise InvalidData(reason, hint=misfit.hint, column=misfit.column) from misfit
        except InvalidData as error:
            raise InvalidData(f"{self.file}: {error.message}", hint=error.hint, **error.ids) from error


def _spool(target: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    rows = 0
    with ipc.new_stream(str(target), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
