"""Opens data files of a Paimon table, by any writer; the error for a damaged file names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.errors import SchemaDrift
from tiering.lake.outside_errors import damaged_file, is_damage
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.proof.file_footer import FileFooter, decode_footer
from tiering.lake.rules.hints import accept_hint
from tiering.model.tables import TablePath


@contextmanager
def open_data_file(storage: Storage, path: PurePath) -> Iterator[pq.ParquetFile]:
    """Yields the open file. Raises DataCorrupt for damaged bytes, also while the file is read; other errors of the storage pass
    unchanged.
    """
    try:
        with storage.opened_file(path) as source, pq.ParquetFile(source) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if is_damage(error):
            raise damaged_file(storage.location(path), error) from error
        raise


def known_footer(storage: Storage, path: PurePath, records: int) -> FileFooter | None:
    """Returns the footer of a live file with `records` rows according to the lake table; None for a file that another service wrote."""
    footer = _footer(storage, path) if path.suffix == ".parquet" else None
    fits = footer is not None and footer.rows == records and path.name.startswith(f"lakeward-{footer.round_id}-")
    return footer if fits else None


def _footer(storage: Storage, path: PurePath) -> FileFooter | None:
    with open_data_file(storage, path) as file:
        metadata = file.metadata.metadata or {}
    try:
        return decode_footer({key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()})
    except ValueError:
        return None


def read_footer(storage: Storage, table: TablePath, path: PurePath, records: int) -> FileFooter:
    """Returns the footer of a live file with `records` rows according to the lake table.

    Raises SchemaDrift for a file without a footer, or with one that does not fit: another service wrote it.
    """
    footer = known_footer(storage, path, records)
    if footer is None:
        raise without_offsets(table, path)
    return footer


def without_offsets(table: TablePath, path: PurePath) -> SchemaDrift:
    """Returns the error for a file whose rows have no offsets."""
    return drift(
        table,
        None,
        f"has the file {path.name}, which Lakeward did not write: the layout is clean, and the rows of the file have no offsets",
        accept_hint(table),
    )


def offsets_of(footer: FileFooter) -> npt.NDArray[np.int64]:
    """Returns the offset of each row of a log table's file."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop) for start, stop in footer.runs)])
