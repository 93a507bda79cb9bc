"""Reads the footers of a clean table's data files (`tiering.lake.proof.file_footer`), without their rows."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from tiering.errors import SchemaDrift
from tiering.lake.paimon.reading.data_files import known_footer
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.rules.hints import accept_hint
from tiering.model.tables import TablePath


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
