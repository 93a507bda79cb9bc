"""Opens data files of a Paimon table, by any writer; the error for a damaged file names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from tiering.lake.outside_errors import damaged_file, is_damage
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.proof.file_footer import FileFooter, decode_footer


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
    fits = footer is not None and footer.rows == records and not footer.is_sorted and path.name.startswith(f"lakeward-{footer.round_id}-")
    return footer if fits else None


def _footer(storage: Storage, path: PurePath) -> FileFooter | None:
    with open_data_file(storage, path) as file:
        metadata = file.metadata.metadata or {}
    try:
        return decode_footer({key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()})
    except ValueError:
        return None
