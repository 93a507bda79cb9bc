"""Reads several files with the same columns like one file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidData
from tiering.ingest.csv_files import CsvSource
from tiering.ingest.parquet_files import ParquetSource, lake_type


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
