"""Reads Parquet files with their own types, and finds the type of a lake table that can hold the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from tiering.errors import InvalidData
from tiering.ingest.formats import renamed
from tiering.ingest.plain_files import PlainFile
from tiering.library_guards.arrow_ipc import check_names_are_text

BATCH_ROWS = 65_536

_HOLDS_ALL_VALUES: Mapping[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.null(): pa.string(),
}


class ParquetSource:
    """One Parquet file as a `Source`."""

    text_types = ()

    def __init__(self, file: PlainFile, rename: Mapping[str, str]) -> None:
        self.file, self.name = file, str(file)
        try:
            self._parquet = pq.ParquetFile(file.path)
            check_names_are_text(self._parquet.schema_arrow)
        except (pa.ArrowException, InvalidData, UnicodeDecodeError) as error:
            raise InvalidData(f"{file} is not a Parquet file: {error}") from error
        self._stored = pa.schema([_decoded(field) for field in self._parquet.schema_arrow])
        names = renamed(self._stored.names, rename, str(file))
        self.schema = pa.schema([field.with_name(name) for name, field in zip(names, self._stored, strict=True)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows. Raises InvalidData."""
        try:
            for batch in self._parquet.iter_batches(BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(batch.cast(self._stored).columns, schema=self.schema)
        except (pa.ArrowException, OSError) as error:
            raise InvalidData(f"{self.file} is damaged: {error}") from error

    def locate(self, row: int) -> str:
        """Returns the place of a row, such as `places.parquet, row 17`, counted from 1."""
        return f"{self.file}, row {row + 1}"

    def locate_refused(self, check: Callable[[pa.Schema], None]) -> str:
        """Returns the file, because a Parquet file has one list of columns for all rows."""
        return str(self.file)


def _decoded(field: pa.Field[Any]) -> pa.Field[Any]:
    """Returns the field without the dictionary encoding of categories, as pandas writes them, and with FLOAT for half-precision floats."""
    kind = field.type.value_type if isinstance(field.type, pa.DictionaryType) else field.type
    return pa.field(field.name, pa.float32() if kind == pa.float16() else kind, field.nullable)


def lake_type(kind: pa.DataType) -> pa.DataType:
    """Returns the lake's type for the values of a type, also within lists, maps and structs. A type without a counterpart stays as it is.

    Timestamps in nanoseconds, as pandas writes them, become microseconds. The cast refuses a value with more digits.
    """
    if kind in _HOLDS_ALL_VALUES:
        return _HOLDS_ALL_VALUES[kind]
    if isinstance(kind, pa.TimestampType) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    if isinstance(kind, pa.FixedSizeBinaryType) and not pa.types.is_decimal(kind):
        return pa.binary()
    if isinstance(kind, pa.Decimal256Type) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return pa.list_(lake_type(kind.value_type))
    if isinstance(kind, pa.MapType):
        return pa.map_(lake_type(kind.key_type), lake_type(kind.item_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([kind.field(index).with_type(lake_type(kind.field(index).type)) for index in range(kind.num_fields)])
    return kind
