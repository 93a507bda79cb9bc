"""Damages that validation has to find. Each is done by hand to a correct lake table, in every format and layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults, read, rewrite, untold
from tiering.cluster.log_writer import LogWriter
from tiering.lake.rules.upkeep import small_files
from tiering.model.tables import TableInfo, TableType
from tiering.model.upkeep import UpkeepOrder

COLUMNS = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
REGIONS = ("eu", "us")
FIRST, SECOND = range(40), range(20, 60)
"""Keys of the round of all tables, and of that of the one whose rows have older values."""
LATER = (range(60, 72), range(72, 84))
"""Keys of the further rounds of tables that get upkeep."""
LAST = range(84, 96)
"""Keys of the round that merges."""


@dataclass
class Damaged:
    """A table of two partitions and two buckets, tiered, and `twin`, another one with the same keys and other values."""

    world: LakeWorld
    table: TableInfo
    twin: TableInfo
    has_upkeep: bool = False

    def file(self, region: str = "eu", bucket: int = 0, table: TableInfo | None = None) -> Path:
        """The oldest file in a partition and bucket; after upkeep the one that upkeep wrote, which is the largest."""
        files = self.files(region, bucket, table)
        return max(files, key=lambda file: file.stat().st_size) if self.has_upkeep else min(files, key=lambda file: file.stat().st_mtime_ns)

    def files(self, region: str, bucket: int, table: TableInfo | None = None) -> list[Path]:
        files = self.world.by_hand.data_files((table or self.table).path)
        return [file for file in files if f"region={region}/" in str(file) and file.parent.name.endswith((f"={bucket}", f"-{bucket}"))]

    def in_place_of_it(self, other: Path, source: TableInfo | None = None) -> None:
        """Puts a copy of `other` in the place of that file."""
        self.world.by_hand.put_in(self.table.path, (source or self.table).path, other.name, self.file().name)


Damage = Callable[[Damaged], None]
Upkeep = Callable[[LakeWorld, Sequence[TableInfo]], None]
"""Rewrites the files of tables."""


def _rows(change: Callable[[pa.Table], pa.Table]) -> Damage:
    def damage(damaged: Damaged) -> None:
        file = damaged.file()
        rewrite(file, change(read(file)))

    return damage


def _all_rows(change: Callable[[pa.Table], pa.Table]) -> Damage:
    """Rewrites all files with changed rows."""

    def damage(damaged: Damaged) -> None:
        by_hand = damaged.world.by_hand
        by_hand.overwrite(
            damaged.table.path, change(by_hand.rows(damaged.table.path).sort_by([("region", "ascending"), ("id", "ascending")]))
        )

    return damage


def _changed(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("text")
    return rows.set_column(place, rows.schema.field("text"), pa.array(["wrong", *rows["text"].to_pylist()[1:]], pa.string()))


def _another_in_its_place(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, 2), rows.slice(3, 1), rows.slice(3)])


def _one_more(damaged: Damaged) -> None:
    by_hand = damaged.world.by_hand
    row = dict.fromkeys(by_hand.rows(damaged.table.path).column_names)
    row |= {"region": "eu", "id": 9_000, "text": "mine"}
    known = {"__bucket": 0, "__offset": 900, "__timestamp": damaged.world.clock.now()}
    row |= {name: value for name, value in known.items() if name in row}
    by_hand.append(damaged.table.path, pa.Table.from_pylist([row], schema=by_hand.rows(damaged.table.path).schema), {})


def _half(damaged: Damaged) -> None:
    content = damaged.file().read_bytes()
    damaged.file().write_bytes(content[: len(content) // 2])


def _older_value(rows: pa.Table) -> pa.Table:
    """Returns the older value of a key whose row the second round changed."""
    texts = [text.replace("row 25 from 20", "row 25 from 0") for text in rows["text"].to_pylist()]
    assert texts != rows["text"].to_pylist()
    return rows.set_column(rows.schema.get_field_index("text"), rows.schema.field("text"), pa.array(texts))


TO_A_FILE: Mapping[str, Damage] = {
    "a value is changed": _rows(_changed),
    "a row is missing in a file": _rows(lambda rows: rows.slice(1)),
    "a row is in a file twice": _rows(lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])),
    "a row is replaced by another row": _rows(_another_in_its_place),
    "a file is deleted from its folder": lambda damaged: damaged.file().unlink(),
    "a file is cut in half": _half,
}
"""Damages to one file, which can be put back."""
TO_A_TABLE: Mapping[str, Damage] = {
    "a file is taken out of the snapshot": lambda damaged: damaged.world.by_hand.take_out(damaged.table.path, damaged.file().name),
    "a file is replaced by one of another table": lambda damaged: damaged.in_place_of_it(damaged.file(table=damaged.twin), damaged.twin),
    "a file is replaced by one of another partition": lambda damaged: damaged.in_place_of_it(damaged.file("us")),
    "a file is replaced by one of another bucket": lambda damaged: damaged.in_place_of_it(damaged.file(bucket=1)),
    "a row is added that the log never had": _one_more,
    "all files are rewritten, one row is missing": _all_rows(lambda rows: rows.slice(1)),
    "all files are rewritten, one row is there twice": _all_rows(lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])),
    "all files are rewritten, a value is changed": _all_rows(_changed),
}
TO_A_TABLE_OF_KEYS: Mapping[str, Damage] = {"all files are rewritten, a row has an older value of its key": _all_rows(_older_value)}


def damaged_tables(world: LakeWorld, table_type: TableType, upkeep: Upkeep | None = None) -> dict[str, str]:
    """Returns what validation finds, by damage. Each damage is undone, or the next one is done to another table.

    `upkeep` runs on all tables first.
    """
    damages = TO_A_TABLE if table_type is TableType.LOG else {**TO_A_TABLE, **TO_A_TABLE_OF_KEYS}
    twin, first, *tables = (new_table(world, table_type, f"t{number}") for number in range(len(damages) + 2))
    for table in (twin, first, *tables):
        write_rows(world, table, FIRST, "twin" if table is twin else "row")
    world.tier_all()
    if table_type is TableType.PRIMARY_KEY:
        write_rows(world, tables[-1], SECOND, "row")
        world.tier_all()
    if upkeep is not None:
        _keep_up(world, (twin, first, *tables), upkeep)
    assert all(result.ok for result in check(world, tables[-1])), "it is right before it is damaged"
    findings = {}
    for name, damage in TO_A_FILE.items():
        damaged = Damaged(world, first, twin, upkeep is not None)
        file = damaged.file()
        content = file.read_bytes()
        damage(damaged)
        findings[name] = _findings(damaged)
        file.write_bytes(content)
    for table, (name, damage) in zip(tables, damages.items(), strict=True):
        damaged = Damaged(world, table, twin, upkeep is not None)
        damage(damaged)
        findings[name] = _findings(damaged)
    return findings


def _keep_up(world: LakeWorld, tables: Sequence[TableInfo], upkeep: Upkeep) -> None:
    """Further rounds, and then upkeep, after which the rows of all of them stand in one file of each bucket."""
    for ids in LATER:
        for table in tables:
            write_rows(world, table, ids, "twin" if table is tables[0] else "row")
        world.tier_all()
    upkeep(world, tables)
    for table in tables:
        damaged = Damaged(world, table, tables[0], has_upkeep=True)
        assert all(len(damaged.files(region, bucket)) <= 2 for region in REGIONS for bucket in (0, 1)), "upkeep left all files"


def merge_in_a_round(world: LakeWorld, tables: Sequence[TableInfo]) -> None:
    """Upkeep inside of a tiering round: it merges the files of the rounds before it."""
    with patch.object(small_files, "SMALL_FILES", 1):
        for table in tables:
            write_rows(world, table, LAST, "twin" if table is tables[0] else "row")
        world.tier_all()


def rewrite_in_upkeep_rounds(world: LakeWorld, tables: Sequence[TableInfo]) -> None:
    """Rounds of their own rewrite all files."""
    world.tier_all(upkeep=UpkeepOrder(full=True))


def _findings(damaged: Damaged) -> str:
    """Returns the checks that name a difference, as Markdown; "unknown" if a check reports `ok` = None, "none" if all agree."""
    results = check(damaged.world, damaged.table)
    checks = dict.fromkeys(name for name, _, _ in faults(results))
    return ", ".join(f"`{name}`" for name in checks) or ("unknown" if untold(results) else "none")


def new_table(world: LakeWorld, table_type: TableType, name: str) -> TableInfo:
    if table_type is TableType.LOG:
        return world.table(name, 2, ("region",), COLUMNS, ("id",))
    return world.primary_key_table(name, 2, COLUMNS, ("region", "id"), ("region",))


def write_rows(world: LakeWorld, table: TableInfo, ids: range, text: str) -> None:
    writer = LogWriter(world.storage, table.path, f"{table.path.table_name}-{ids.start}")
    for region in REGIONS:
        columns = {"region": [region] * len(ids), "id": ids, "text": [f"{text} {key} from {ids.start}" for key in ids]}
        rows = pa.table(columns, schema=COLUMNS)
        if table.table_type is TableType.LOG:
            writer.append(rows)
        else:
            writer.upsert(rows)
