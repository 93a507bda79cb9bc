"""What the footers of a clean table's data files say (`tiering.lake.proof.file_footer`): the rows themselves are not read."""

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
    """The footer of a live file, of which the lake says that it has `records` rows.

    Raises SchemaDrift for a file that has none, or one that does not fit: then somebody else wrote it.
    """
    footer = known_footer(storage, path, records)
    if footer is None:
        raise without_offsets(table, path)
    return footer


def without_offsets(table: TablePath, path: PurePath) -> SchemaDrift:
    """The error for a file whose rows tell no offsets."""
    return drift(
        table,
        None,
        f"holds the file {path.name}, which somebody else wrote: the layout is clean, and its rows tell no offsets",
        accept_hint(table),
    )


def offsets_of(footer: FileFooter) -> npt.NDArray[np.int64]:
    """The offset of each row of a log table's file."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop) for start, stop in footer.runs)])
