"""Metadata of a lake table that was damaged at random: an error of ours that says so, and once it is restored, all goes on."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import manifest as pyiceberg_manifest

from support.lakes.lake_kit import LakeKit, ObservedCatalog, bucket
from tiering.errors import LakeUnavailable, LakewardError
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TableInfo

ROWS = 50
EXAMPLES = 60


@pytest.fixture
def table(kit: Any) -> TableInfo:
    table: TableInfo = kit.table()
    for number in (1, 2):
        kit.tier(table, f"before-{number}", {bucket(0): number * ROWS, bucket(1): number * ROWS})
    return table


@pytest.fixture(autouse=True)
def no_memory_of_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg keeps manifests by their paths, which damage does not change."""
    monkeypatch.setattr(pyiceberg_manifest, "_manifests", lambda io, path: tuple(pyiceberg_manifest.read_manifest_list(io.new_input(path))))


def newest(kit: LakeKit, pattern: str) -> Path:
    return max(kit.folder.rglob(pattern), key=lambda path: path.stat().st_mtime_ns)


def cut(whole: bytes, seed: random.Random) -> bytes:
    """All that Avro files are given: over some other bytes pyiceberg's decoder, which is C, takes the process with it."""
    return whole[: seed.randrange(len(whole))]


def with_an_unknown_type(whole: bytes, seed: random.Random) -> bytes:
    """In the schema of an Avro file, which is JSON."""
    return whole.replace(b'"long"', bytes(f'"{"".join(seed.choices("lonk", k=4))}_"', "ascii")[:5] + b'"')


def garbled(whole: bytes, seed: random.Random) -> bytes:
    match seed.randrange(3):
        case 0:
            return cut(whole, seed)
        case 1:
            at = seed.randrange(len(whole) - 20)
            return whole[:at] + seed.randbytes(20) + whole[at + 20 :]
        case _:
            return bytes(byte ^ 1 << seed.randrange(8) if seed.random() < 0.02 else byte for byte in whole)


ROUNDS = itertools.count(1)


def prepare_a_commit(kit: LakeKit, table: TableInfo) -> None:
    """The request itself never arrives."""
    prepared = kit.prepare(table, f"lost-{next(ROUNDS)}", {bucket(0): 3 * ROWS, bucket(1): 3 * ROWS})
    prepared.with_catalog(lambda catalog: ObservedCatalog(catalog, ConnectionError("lost"), lands=False)).commit()


def list_files(kit: LakeKit, table: TableInfo) -> None:
    kit.lake.file_lists(kit.view(table), None)


def look_for_the_sweep(kit: LakeKit, table: TableInfo) -> None:
    """By a process that remembers no list of manifests."""
    IcebergLake(kit.properties).live_files(kit.view(table))


def look(kit: LakeKit, table: TableInfo) -> None:
    kit.view(table)


@pytest.mark.parametrize(
    ("pattern", "damage", "use"),
    [
        ("*.metadata.json", garbled, look),
        ("snap-*.avro", cut, prepare_a_commit),
        ("snap-*.avro", cut, look_for_the_sweep),
        ("lakeward-*-m*.avro", cut, list_files),
        ("snap-*.avro", with_an_unknown_type, look_for_the_sweep),
    ],
)
def test_damaged_metadata_is_said_to_be_damaged(
    kit: Any,
    table: TableInfo,
    pattern: str,
    damage: Callable[[bytes, random.Random], bytes],
    use: Callable[[LakeKit, TableInfo], None],
) -> None:
    seed, answers = random.Random(f"{pattern} {use.__name__}"), Counter[str]()
    file = newest(kit, pattern)
    whole = file.read_bytes()
    for _ in range(EXAMPLES):
        file.write_bytes(damage(whole, seed))
        try:
            use(kit, table)
        except LakewardError as error:
            answers["damaged" if "is damaged" in error.hint and "backup" in error.hint else error.error_class] += 1
    assert answers["damaged"] >= EXAMPLES * 3 // 4, answers
    if use is look_for_the_sweep:
        assert set(answers) == {"damaged"}, answers
    file.write_bytes(whole)
    kit.tier(table, "restored", {bucket(0): 3 * ROWS, bucket(1): 3 * ROWS})
    assert kit.offsets_in_lake(table) == [(number, offset) for number in (0, 1) for offset in range(3 * ROWS)]


def test_metadata_that_is_gone_is_not_taken_for_a_catalog_that_is_down(kit: LakeKit, table: TableInfo) -> None:
    newest(kit, "*.metadata.json").unlink()
    with pytest.raises(LakeUnavailable) as raised:
        kit.view(table)
    assert "a file of the lake table was removed" in raised.value.hint
