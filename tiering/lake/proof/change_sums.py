"""Sums over a range of a log that do not depend on order: over its rows, and, for a primary-key table, over its deletes and living rows.

They compare two sides (`lake.rules.clean_comparison`): a range of the log, and what another tiering service added to a clean lake table for
this range. A log has all five sums, over one round or over several:

    written   rows of inserts and updates
    deleted   keys of before-images and deletes
    living    the last row of each key whose last record is not a delete
    gone      each key whose last record is a delete
    replaced  keys of updates without a before-image (`table.changelog.image` = WAL), which may have replaced a row

In Iceberg, Fluss's own tiering (its writer of 0.9.1 and 1.0, in Java) writes every row of an insert or an update. It deletes rows of the
same round by position, and older rows by key. So `written` are the rows of data files. `deleted` are the keys of equality deletes, and
of rows that position deletes name. `living` are written rows that no delete names. These three show that the deletes removed exactly the
older rows that the log names: a deleted row that the round did not write must be an older one, and no other key is named. For a log
without before-images the deletes must also name the `replaced` keys.

In Paimon, data files have the last change of each key, including deletes. The newest changes are `living` and `gone`, which together are
the whole result. Separate files of all changes (`changelog-producer` = `input`) give `written` and `deleted`.

`written` and `deleted` do not depend on where a round ended. Rows and keys are summed as in `row_checksum`.
Memory: 17 bytes for each changed key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.lake.proof.row_checksum import MODULUS, Words, row_checksum, row_hashes
from tiering.model.tables import CHANGE_TYPE_COLUMN, ChangeType, TableInfo, TableType

Flags = npt.NDArray[np.bool_]

PENDING_ROWS = 1 << 20
"""Number of changes that are collected before those of the same key are combined."""

_REMOVING = np.array([ChangeType.UPDATE_BEFORE, ChangeType.DELETE])


@dataclass(frozen=True)
class RowSum:
    """The number of rows, and the sum of their checksums modulo 2^64."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(self.rows + other.rows, (self.checksum + other.checksum) % MODULUS)

    def __str__(self) -> str:
        return f"{self.rows} with the checksum {self.checksum:016x}"


@dataclass(frozen=True)
class ChangeSums:
    """The five sums that the module describes. For a log table `living` equals `written`, and nothing is deleted. None = unknown."""

    written: RowSum | None = RowSum()
    deleted: RowSum | None = RowSum()
    living: RowSum = RowSum()
    gone: RowSum | None = RowSum()
    replaced: RowSum = RowSum()

    def __add__(self, other: ChangeSums) -> ChangeSums:
        return ChangeSums(
            _together(self.written, other.written),
            _together(self.deleted, other.deleted),
            self.living + other.living,
            _together(self.gone, other.gone),
            self.replaced + other.replaced,
        )


def _together(left: RowSum | None, right: RowSum | None) -> RowSum | None:
    return None if left is None or right is None else left + right


def sum_of_hashes(hashes: Words) -> RowSum:
    """Returns the sum over rows, or keys, with these hashes."""
    return RowSum(len(hashes), int(hashes.sum(dtype=np.uint64)))


class LogFold:
    """Sums a bucket's log, which is read in the order of offsets."""

    def __init__(self, table: TableInfo) -> None:
        self._columns = table.schema.names
        self._key = list(table.primary_key)
        self._is_log = table.table_type is TableType.LOG
        self._sums = ChangeSums()
        self._newest = NewestRows()
        self._before_image: Words = np.zeros(0, np.uint64)
        """Hash of the key of the last record, if that was a before-image; else empty."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch with the columns of `TableInfo.read_schema`."""
        rows = batch.select(self._columns)
        if self._is_log:
            written = RowSum(batch.num_rows, row_checksum(rows))
            self._sums += ChangeSums(written, living=written)
            return
        kinds = batch.column(CHANGE_TYPE_COLUMN).to_numpy(zero_copy_only=False)
        gone = np.isin(kinds, _REMOVING)
        keys, hashes = row_hashes(batch.select(self._key)), row_hashes(rows)
        replaced = sum_of_hashes(self._without_before_image(kinds, keys))
        self._sums += ChangeSums(sum_of_hashes(hashes[~gone]), sum_of_hashes(keys[gone]), replaced=replaced)
        self._newest.add(keys, hashes, ~gone)

    def _without_before_image(self, kinds: npt.NDArray[Any], keys: Words) -> Words:
        """Returns the hashes of the keys of after-images that do not follow the before-image of their key."""
        if not len(keys):
            return keys
        follows = np.zeros(len(keys), dtype=bool)
        follows[0] = bool((self._before_image == keys[0]).any())
        follows[1:] = (kinds[:-1] == ChangeType.UPDATE_BEFORE) & (keys[:-1] == keys[1:])
        self._before_image = keys[-1:] if kinds[-1] == ChangeType.UPDATE_BEFORE else keys[:0]
        without: Words = keys[(kinds == ChangeType.UPDATE_AFTER) & ~follows]
        return without

    def sums(self) -> ChangeSums:
        """Returns the sums over all batches."""
        return self._sums if self._is_log else self._sums + self._newest.sums()


class NewestRows:
    """The newest record of each key: the hash of its row, and whether it is alive."""

    def __init__(self) -> None:
        self._parts: list[tuple[Words, Words, Flags]] = []
        self._pending = 0

    def add(self, keys: Words, rows: Words, alive: Flags) -> None:
        """Adds records, by hashes of key and row, in their order. They are newer than all earlier ones."""
        self._parts.append((keys, rows, alive))
        self._pending += len(keys)
        if self._pending >= PENDING_ROWS:
            self._put_together()

    def sums(self) -> ChangeSums:
        """Returns only the sums `living` and `gone`."""
        self._put_together()
        if not self._parts:
            return ChangeSums()
        [(keys, rows, alive)] = self._parts
        return ChangeSums(living=sum_of_hashes(rows[alive]), gone=sum_of_hashes(keys[~alive]))

    def _put_together(self) -> None:
        if not self._parts:
            return
        keys, rows, alive = (np.concatenate(column)[::-1] for column in zip(*self._parts, strict=True))
        unique, newest = np.unique(keys, return_index=True)
        self._parts = [(unique, rows[newest], alive[newest])]
        self._pending = 0
