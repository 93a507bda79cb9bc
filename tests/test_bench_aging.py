"""bench/aging.py counts the rows that a table must have, the bytes that were written, and the targets."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.bench.modules import load_module

rows, disk, targets = (load_module(f"upkeep/{name}.py") for name in ("rows", "disk", "targets"))
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class KeptRows:
    """In place of a `LogWriter`: what a table holds after its writes, by id."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.changes = self.deletes = 0

    def append(self, batch: pa.RecordBatch) -> None:
        assert not self.rows.keys() & set(batch["id"].to_pylist())
        self.upsert(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self.changes += batch.num_rows
        self.rows |= {row["id"]: row for row in batch.to_pylist()}

    def delete(self, keys: pa.RecordBatch) -> None:
        self.deletes += keys.num_rows
        for key in keys["id"].to_pylist():
            del self.rows[key]


def test_a_round_of_a_log_table_adds_its_rows_and_one_of_a_primary_key_table_changes_and_deletes_keys() -> None:
    log, keys = KeptRows(), KeptRows()
    workloads = ((rows.LogWorkload(100, 4, "iceberg"), log), (rows.KeyWorkload(500, 100, 4, "paimon"), keys))
    for workload, kept in workloads:
        for number in range(1, 21):
            workload.write(kept, number)
        assert workload.expected().to_pylist() == [kept.rows[key] for key in sorted(kept.rows)]
        assert workload.plain_bytes > 0
    assert (len(log.rows), log.deletes) == (2_000, 0)
    assert 300 < len(keys.rows) < 500
    assert keys.changes + keys.deletes <= 500 + 19 * 100
    assert keys.deletes > 50


def test_a_lake_that_has_other_rows_than_were_written_ends_the_bench() -> None:
    workload, kept = rows.LogWorkload(10, 1, "iceberg"), KeptRows()
    workload.write(kept, 1)
    expected = workload.expected()
    table = pa.Table.from_batches([expected])
    rows.check_rows(table.take([*range(9, -1, -1)]), expected, "the lake")
    with pytest.raises(SystemExit, match="the lake has 9 rows instead of 10"):
        rows.check_rows(table.slice(1), expected, "the lake")
    doubled = pa.concat_tables([table.slice(1), table.slice(9)])
    older = table.set_column(1, "version", pa.array([0] * 10, pa.int64()))
    for wrong in (doubled, older):
        with pytest.raises(SystemExit, match="the lake has other rows than were written"):
            rows.check_rows(wrong, expected, "the lake")


def test_written_bytes_count_each_file_once_by_its_kind_and_give_it_the_simulated_time(tmp_path: Path) -> None:
    written, later = disk.WrittenBytes(tmp_path), NOW + timedelta(hours=1)
    (tmp_path / "t" / "snapshot").mkdir(parents=True)
    names = {
        "a.parquet": disk.FileKind.DATA,
        "changelog-a.parquet": disk.FileKind.CHANGELOG,
        "00001-x.metadata.json": disk.FileKind.TABLE_METADATA,
        "snapshot/snapshot-1": disk.FileKind.TABLE_METADATA,
        "snap-1.avro": disk.FileKind.MANIFEST,
        "a.marker": disk.FileKind.OTHER,
    }
    for name in names:
        (tmp_path / "t" / name).write_bytes(b"0123456789")
    assert written.look(NOW) == {kind: 10 * list(names.values()).count(kind) for kind in names.values()}
    assert (tmp_path / "t" / "a.parquet").stat().st_mtime == NOW.timestamp()
    os.remove(tmp_path / "t" / "a.parquet")
    (tmp_path / "t" / "b.parquet").write_bytes(b"012")
    assert written.look(later) == {disk.FileKind.DATA: 3}
    assert (tmp_path / "t" / "b.parquet").stat().st_mtime == later.timestamp()
    files, sizes = disk.sizes_by_kind(tmp_path)
    assert (files[disk.FileKind.DATA], sizes[disk.FileKind.DATA]) == (1, 3)


@pytest.mark.parametrize(("value", "verdict"), [(0.0, "met"), (1.2, "met"), (1.21, "missed"), (float("nan"), "missed")])
def test_a_target_is_an_upper_bound(value: float, verdict: str) -> None:
    target = targets.Target("round time", value, 1.2)
    assert target.verdict == verdict
    assert target.line.endswith(f"of at most 1.2: {verdict}")


def test_data_files_may_be_the_ideal_number_with_a_margin_and_eight_small_ones_a_bucket() -> None:
    assert targets.data_file_limit(0, 100, 4) == pytest.approx(1.2 * 4 + 32)
    assert targets.data_file_limit(1_001, 100, 4) == pytest.approx(1.2 * 11 + 32)
