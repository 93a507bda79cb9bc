"""Merges the rows of a lake with the changes of a log, on an executor: of each key the last change counts.

The changes are kept in a `Spool` until all are known. Then the base rows are read once, without those of changed keys, and the last changes
that leave a row follow. Memory is bounded by the spool's limit, one byte for each change, one batch of base rows, and MANY_KEYS keys. With
more keys the base rows are read twice, and DuckDB compares the keys within its own limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import read_columns
from tiering.errors import SetupError
from tiering.lake.writing.keys import ChangedKeys, KeyRows, Mask, kept_rows, last_of_each_key, rows_with
from tiering.lake.writing.spool import Spool
from tiering.model.tables import CHANGE_TYPE_COLUMN, ChangeType
from tiering.union_read.readers import RowReader

RowsOf = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads the base rows with some columns, always in the same order."""


@dataclass(frozen=True)
class SnapshotRows:
    """A `RowReader` of the rows of a KV snapshot."""

    reader: SplitReader
    size_bytes: int

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from read_columns(self.reader, columns)


class Yields(StrEnum):
    """The rows of the changes that a merge yields after the base rows."""

    ROWS = "ROWS"
    """Last changes that leave a row."""
    KEYS = "KEYS"
    """All last changes: each changed key once."""
    NOTHING = "NOTHING"
    """If the base rows of a bucket are divided among several merges, only one of them yields the changes."""


@dataclass(frozen=True)
class MergedRows:
    """A `RowReader` of base rows and the changes of their buckets. Can be pickled.

    `key`: the primary key. `columns`: the columns of the source table. `changes`: readers of changes, for each bucket in the order of its
    log. `base`: readers of rows, of each key at most one. `yields`: the rows that changes leave, or the keys that they change.
    """

    key: tuple[str, ...]
    columns: pa.Schema
    changes: tuple[SplitReader, ...]
    base: tuple[RowReader, ...]
    size_bytes: int
    yields: Yields = Yields.ROWS

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys((*self.key, *columns)))
        spooled = list(self.key) if self.yields is Yields.NOTHING else names
        with closing(Spool(pa.schema([self.columns.field(name) for name in spooled]))) as spool:
            with _temporary_files():
                kinds = self._spool_changes(spool, spooled)
                last = last_of_each_key(spool.rows, spool.batches(self.key))
            changed = self._changed(spool, last)
            for reader in self.base:
                yield from rows_without(changed, reader.read, names, columns)
            if self.yields is not Yields.NOTHING:
                rows = last if self.yields is Yields.KEYS else last & (kinds != ChangeType.DELETE)
                yield from kept_rows(spool.batches(columns), rows)

    def _spool_changes(self, spool: Spool, names: Sequence[str]) -> npt.NDArray[np.int8]:
        """Adds the changes to the spool, and returns their kinds. A -U never is the last change of its key, so it is left out."""
        all_kinds: list[npt.NDArray[np.int8]] = []
        for reader in self.changes:
            for batch in read_columns(reader, [*names, CHANGE_TYPE_COLUMN]):
                kinds = batch.column(CHANGE_TYPE_COLUMN).to_numpy()
                remaining = kinds != ChangeType.UPDATE_BEFORE
                for rows in kept_rows([batch.select(list(names))], remaining):
                    spool.add(rows)
                    all_kinds.append(kinds[remaining])
        return np.concatenate(all_kinds) if all_kinds else np.zeros(0, np.int8)

    def _changed(self, spool: Spool, last: Mask) -> ChangedKeys:
        types = tuple(self.columns.field(name).type for name in self.key)
        return ChangedKeys(self.key, types, int(last.sum()), lambda: kept_rows(spool.batches(self.key), last))


def rows_without(changed: ChangedKeys, read: RowsOf, names: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows whose key is not changed, with `columns`. `names`: `columns` and the key columns."""
    if not changed.count:
        yield from read(columns)
    elif (is_changed := changed.test()) is not None:
        for batch in read(names):
            changed_rows = is_changed([batch.column(name) for name in changed.columns])
            yield from kept_rows([batch.select(list(columns))], ~changed_rows)
    else:
        yield from kept_rows((batch.select(list(columns)) for batch in read(names)), ~_changed_rows(changed, partial(read, names)))


def _changed_rows(changed: ChangedKeys, read: Callable[[], Iterator[pa.RecordBatch]]) -> Mask:
    """Returns which of the rows have a changed key. Reads all rows, and compares the keys with DuckDB."""
    rows = 0

    def keys() -> Iterator[KeyRows]:
        nonlocal rows
        for batch in read():
            if batch.num_rows:
                yield KeyRows(0, rows, [batch.column(name) for name in changed.columns])
            rows += batch.num_rows

    positions = [places for _, places in rows_with(changed, keys())]
    mask = np.zeros(rows, dtype=bool)
    for places in positions:
        mask[places] = True
    return mask


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Raises SetupError for an error of the temporary files. Readers raise their own errors, which are no OSErrors."""
    try:
        yield
    except OSError as error:
        raise SetupError(
            f"the changes of a bucket could not be kept in a temporary file: {error.strerror or type(error).__name__}",
            hint="Free disk space on the executors, or set their TMPDIR to a folder with more space.",
        ) from error
