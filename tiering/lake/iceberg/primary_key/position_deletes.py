"""Writes and reads position-delete files (Iceberg spec, "Position Delete Files"): one file a bucket and round.

The file covers all data files of the bucket, sorted by path and position. With one delete file for each data file, a round of scattered
changes would write as many files as the bucket has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile

from tiering.lake.iceberg.primary_key.bucket_files import LiveFile
from tiering.lake.iceberg.reading.lake_parquet import LakeParquet, open_lake_file
from tiering.lake.iceberg.schema.types import FIELD_ID_KEY
from tiering.lake.iceberg.writing.data_files import PATH_FIELD_ID, POSITION_FIELD_ID, DataFileBuilder
from tiering.lake.writing.encodings import COMPRESSION
from tiering.lake.writing.keys import Mask

BATCH_ROWS = 1 << 18

_FIELDS: list[pa.Field[Any]] = [
    pa.field("file_path", pa.dictionary(pa.int32(), pa.string()), nullable=False, metadata={FIELD_ID_KEY: str(PATH_FIELD_ID).encode()}),
    pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID_KEY: str(POSITION_FIELD_ID).encode()}),
]
_SCHEMA = pa.schema(_FIELDS)

FooterOfDeletes = Callable[[pa.Table], dict[str, str]]
"""Returns the footer of a file with these rows."""


def write_deletes(
    io: FileIO, location: str, dying: Mapping[str, Mask], builder: DataFileBuilder, footer_of: FooterOfDeletes | None = None
) -> DataFile:
    """Writes the rows of `dying` (by data file, at least one row) as a position-delete file; in a clean table with a footer."""
    paths = sorted(path for path, mask in dying.items() if mask.any())
    positions = [np.flatnonzero(dying[path]) for path in paths]
    codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(rows) for rows in positions])
    deleted = np.concatenate(positions).astype(np.int64)
    column = pa.DictionaryArray.from_arrays(codes, pa.array(paths, pa.string()))
    table = pa.Table.from_arrays([column, pa.array(deleted)], schema=_SCHEMA)
    with io.new_output(location).create() as stream:
        with pq.ParquetWriter(
            cast(Any, stream),
            _SCHEMA,
            compression=COMPRESSION,
            use_dictionary=cast(Any, ["file_path"]),
            column_encoding={"pos": "DELTA_BINARY_PACKED"},
            store_schema=False,
        ) as writer:
            writer.write_table(table)
            if footer_of is not None:
                writer.add_key_value_metadata(cast(Any, footer_of(table)))
        size = stream.tell()
    return builder.build_deletes(location, size, paths, deleted)


def dead_rows(io: FileIO, data: Iterable[LiveFile], deletes: Iterable[LiveFile]) -> tuple[dict[str, Mask], bool]:
    """Returns which rows are deleted, by data file, without files that have none. Also returns whether some deletes have no effect of
    their own: those of data files that are gone, and those of rows that other deletes also name. The table's counters include them."""
    records = {file.location: file.records for file in data}
    dead: dict[str, Mask] = {}
    named = 0
    for delete in deletes:
        for path, positions in deleted_positions(io, delete):
            named += len(positions)
            if path in records:
                mask = dead.setdefault(path, np.zeros(records[path], dtype=bool))
                mask[positions] = True
    return dead, named > sum(int(mask.sum()) for mask in dead.values())


def deleted_positions(io: FileIO, delete: LiveFile) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Yields the positions that a delete file names, by data file. A data file may be yielded several times."""
    with open_lake_file(io, delete.location) as stream:
        parquet = LakeParquet(stream, delete.location, read_dictionary=["file_path"])
        for batch in parquet.iter_batches(BATCH_ROWS, columns=["file_path", "pos"], use_threads=False):
            column = cast(Any, batch.column(0))
            codes, positions = column.indices.to_numpy(), batch.column(1).to_numpy()
            ends = [*(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]  # the file is sorted by path, so there are few runs
            start = 0
            for end in ends:
                if end > start:
                    yield column.dictionary[int(codes[start])].as_py(), positions[start:end]
                start = end
