"""Keeps the changes of one split until all are known: in memory up to a limit, then in an unnamed temporary file.

The file has no name, so the operating system frees it however this process ends. It is in the folder that TMPDIR names.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

import pyarrow as pa

MEMORY_BYTES = 64 << 20
"""Bytes of Arrow data that are kept in memory before they are written. While they are written, about twice as many are used."""
BATCH_ROWS = 1 << 17
"""Number of rows of a batch in the file, and so of a batch in memory when it is read back."""


class Spool:
    """Batches of one schema, which are read back in the same order. For use by one thread. `rows` counts their rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch. Raises OSError if the temporary file cannot be written."""
        self._batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes >= MEMORY_BYTES:
            self._spill()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields all batches, or only some of their columns in `columns`' order. No batch can be added afterwards."""
        if self._file is None:
            yield from (batch if columns is None else batch.select(list(columns)) for batch in self._batches)
            return
        self._spill()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        fields = None if columns is None else [self._schema.get_field_index(name) for name in columns]
        self._file.seek(0)
        reader = pa.ipc.open_file(pa.PythonFile(cast(Any, self._file), "r"), options=pa.ipc.IpcReadOptions(included_fields=fields))
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            yield batch if columns is None else batch.select(list(columns))

    def close(self) -> None:
        """Frees memory and file. May be called twice."""
        self._batches.clear()
        self._writer = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        if not self._batches:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="lakeward-")  # noqa: SIM115 - closed in `close`
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._writer = pa.ipc.new_file(pa.PythonFile(cast(Any, self._file), "w"), self._schema, options=options)
        rows = pa.Table.from_batches(self._batches, schema=self._schema).combine_chunks()
        self._batches, self._bytes = [], 0
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            self._writer.write_batch(batch)
