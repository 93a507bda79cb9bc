"""The footer of a file of a clean lake table, which describes its rows: Parquet key-value metadata, ASCII.

Position-delete files of primary-key tables have it too; their rows are paths and positions.

lakeward.footer    1, or 2 if the file has `lakeward.order` or offsets in the compact form, which older releases cannot read
lakeward.table     <table id>/<uuid of the lake table>
lakeward.round     the round that wrote the file
lakeward.bucket    3, or 17/3 within the partition with the id 17; a recreated partition of the same name has another id
lakeward.offsets   for a log table: the offsets of the rows in the order of the rows, as runs: 0-100,105-120 (stops are excluded). Many
                   runs have the compact form `z1:` and text in base64 (`offsets_text`)
lakeward.order     `sorted`: the rows are in the sort order of the table, so the offsets are a set, and no row tells its own
lakeward.changes   for a primary-key table: the range of the log whose changes the round folded: 100-200
lakeward.rows      the number of rows
lakeward.checksum  v1: and 16 hexadecimal digits: `row_checksum` of all rows
lakeward.folded    for a merged sorted run, or a file rewritten without columns that the lake table dropped: v1: and the sum of the
                   checksums of the replaced files, including rows or values that no longer exist
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiering.lake.proof.row_checksum import MODULUS
from tiering.model.tables import BucketKey, TableInfo

VERSION, NEWER_VERSION = "1", "2"
PREFIX = "lakeward."
VERSION_KEY = "lakeward.footer"
TABLE_KEY = "lakeward.table"
ROUND_KEY = "lakeward.round"
BUCKET_KEY = "lakeward.bucket"
OFFSETS_KEY = "lakeward.offsets"
CHANGES_KEY = "lakeward.changes"
ORDER_KEY = "lakeward.order"
ROWS_KEY = "lakeward.rows"
CHECKSUM_KEY = "lakeward.checksum"
FOLDED_KEY = "lakeward.folded"
BACKFILL_KEY = "lakeward.backfill"
"""Only in the footers of backfilled files, which `proof.backfilled_rows` describes."""

SORTED = "sorted"
MOST_PLAIN_RUNS = 256
"""Upper bound of the runs that a footer has in the plain form, which takes some 15 bytes for each."""
MOST_COMPACT_RUNS = 1 << 24
"""Upper bound of the runs in the compact form, which take up to 256 MiB while they are read."""
COMPACT = "z1:"
"""Beginning of offsets in the compact form."""
_RUN_BYTES = 16
"""Size of one run in the compact form before compression: the offsets left out before it, and its length, as 64-bit integers."""

_CHECKSUM = re.compile(r"v1:([0-9a-f]{16})")

Run = tuple[int, int]
"""Offsets from the first up to, but without, the second."""


@dataclass(frozen=True)
class FileFooter:
    """The values of a footer. `runs` is empty for a file of a primary-key table. `changes` is None for a file of a log table. `folded` is
    None unless a merge of sorted runs wrote the file, or a rewrite without columns that the lake table dropped. `is_sorted`: `runs` are the
    offsets of all rows together, and the position of a row does not tell its offset. `is_backfill`: its rows are no records of the log, and
    nothing but `proof.backfilled_rows` reads the footer."""

    table_id: int
    lake_table_uuid: str
    round_id: str
    bucket: BucketKey
    rows: int
    checksum: int
    runs: tuple[Run, ...] = ()
    changes: Run | None = None
    folded: int | None = None
    is_sorted: bool = False
    is_backfill: bool = False

    @property
    def written_checksum(self) -> int:
        """The file's part of the checksum of all rows that rounds wrote to its bucket."""
        return self.checksum if self.folded is None else self.folded


def encode_footer(footer: FileFooter) -> dict[str, str]:
    """Returns the footer as key-value metadata. Equal footers give equal texts."""
    if footer.is_backfill:
        identity = {BACKFILL_KEY: footer.round_id, TABLE_KEY: f"{footer.table_id}/{footer.lake_table_uuid}"}
        return {**identity, ROWS_KEY: str(footer.rows), CHECKSUM_KEY: f"v1:{footer.checksum:016x}"}
    offsets = {OFFSETS_KEY: offsets_text(footer.runs)} if footer.changes is None else {CHANGES_KEY: runs_text([footer.changes])}
    return {
        VERSION_KEY: NEWER_VERSION if footer.is_sorted or offsets.get(OFFSETS_KEY, "").startswith(COMPACT) else VERSION,
        TABLE_KEY: f"{footer.table_id}/{footer.lake_table_uuid}",
        ROUND_KEY: footer.round_id,
        BUCKET_KEY: str(footer.bucket),
        **offsets,
        **({ORDER_KEY: SORTED} if footer.is_sorted else {}),
        ROWS_KEY: str(footer.rows),
        CHECKSUM_KEY: f"v1:{footer.checksum:016x}",
        **({} if footer.folded is None else {FOLDED_KEY: f"v1:{footer.folded:016x}"}),
    }


def decode_footer(metadata: Mapping[str, str]) -> FileFooter | None:
    """Returns the footer of this metadata; None if it has none. Raises ValueError for an unreadable footer or an unknown version."""
    if VERSION_KEY not in metadata:
        return None
    if metadata[VERSION_KEY] not in (VERSION, NEWER_VERSION):
        raise ValueError(f"its version is {metadata[VERSION_KEY]!r}; this Lakeward reads versions {VERSION} and {NEWER_VERSION}")
    try:
        table_id, _, uuid = metadata[TABLE_KEY].partition("/")
        bucket, rows = BucketKey.parse(metadata[BUCKET_KEY]), int(metadata[ROWS_KEY])
        runs = parse_runs(metadata[OFFSETS_KEY], rows) if OFFSETS_KEY in metadata else ()
        changes = None if OFFSETS_KEY in metadata else _parse_run(metadata[CHANGES_KEY])
        checksum = parse_checksum(metadata[CHECKSUM_KEY])
        folded = parse_checksum(metadata[FOLDED_KEY]) if FOLDED_KEY in metadata else None
        is_sorted = _parse_order(metadata.get(ORDER_KEY))
        footer = FileFooter(int(table_id), uuid, metadata[ROUND_KEY], bucket, rows, checksum, runs, changes, folded, is_sorted)
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from error
    if changes is None and sum(stop - start for start, stop in runs) != rows:
        raise ValueError(f"it names the offsets {_shown(metadata[OFFSETS_KEY])} for {rows} rows")
    return footer


def parse_checksum(text: str) -> int:
    """Returns the checksum of this text: `v1:` and 16 hexadecimal digits. Raises ValueError."""
    checksum = _CHECKSUM.fullmatch(text)
    if checksum is None:
        raise ValueError(f"its checksum is {text!r}")
    return int(checksum[1], 16)


def _parse_order(text: str | None) -> bool:
    if text not in (None, SORTED):
        raise ValueError(f"its rows are in the order {text!r}, which this Lakeward does not know")
    return text == SORTED


def merged(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Returns the same offsets in as few runs as possible, in order. `runs` do not overlap. Empty runs are left out."""
    whole: list[Run] = []
    for start, stop in sorted(runs):
        if start >= stop:
            continue
        if whole and whole[-1][1] == start:
            whole[-1] = (whole[-1][0], stop)
        else:
            whole.append((start, stop))
    return tuple(whole)


def without(start: int, stop: int, runs: Iterable[Run]) -> tuple[Run, ...]:
    """Returns the offsets of `[start, stop)` that are in none of `runs`, which do not overlap."""
    left: list[Run] = []
    for begin, end in sorted(runs):
        if begin > start:
            left.append((start, min(begin, stop)))
        start = max(start, end)
    return merged([*left, (start, stop)])


def sum_of(checksums: Iterable[int]) -> int:
    """Returns the checksum of rows whose parts have these checksums."""
    return sum(checksums) % MODULUS


def runs_text(runs: Iterable[Run]) -> str:
    """Returns runs as text: `0-100,105-120`."""
    return ",".join(f"{start}-{stop}" for start, stop in runs)


def offsets_text(runs: Sequence[Run]) -> str:
    """Returns runs in order as text. Many runs, as in a file of one of several partition values, get the compact form.

    The compact form has for each run the number of offsets left out before it and its length, grouped by the bytes of these numbers, as
    zlib in base64. It takes some 1 to 3 bytes a run."""
    if not MOST_PLAIN_RUNS < len(runs) <= MOST_COMPACT_RUNS:
        return runs_text(runs)
    borders = np.array(runs, dtype="<i8").ravel()
    steps = np.diff(borders, prepend=0).astype("<i8")
    planes = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 8).T)
    return COMPACT + base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")


def parse_runs(text: str, most_runs: int = MOST_PLAIN_RUNS) -> tuple[Run, ...]:
    """Returns the runs of this text. Raises ValueError for runs that are empty or not in order, and for more than `most_runs` in the
    compact form, whose size the text does not show."""
    if text.startswith(COMPACT):
        return _parse_compact(text, most_runs)
    runs: list[Run] = []
    for part in text.split(",") if text else ():
        run = _parse_run(part)
        if not run[0] < run[1] or (runs and run[0] < runs[-1][1]):
            raise ValueError(f"it names the offsets {_shown(text)}")
        runs.append(run)
    return tuple(runs)


def _parse_compact(text: str, most_runs: int) -> tuple[Run, ...]:
    unpacking = zlib.decompressobj()
    most_runs = min(max(0, most_runs), MOST_COMPACT_RUNS)
    try:
        packed = base64.b64decode(text.removeprefix(COMPACT), validate=True)
        planes = unpacking.decompress(packed, most_runs * _RUN_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it names the offsets {_shown(text)}: {error}") from error
    if len(planes) % _RUN_BYTES or len(planes) > most_runs * _RUN_BYTES or not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"it names the offsets {_shown(text)}, which are not those of at most {most_runs} runs")
    steps = np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(8, -1).T).view("<i8").ravel()
    borders = np.cumsum(steps)
    if (steps < 0).any() or (steps[1::2] == 0).any() or (borders < 0).any():
        raise ValueError(f"it names the offsets {_shown(text)}, which are not in order")
    return tuple(zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True))


def _shown(text: str) -> str:
    """Returns the text of offsets for an error."""
    return repr(text if len(text) <= 100 else f"{text[:100]}...")


def _parse_run(text: str) -> Run:
    """Returns the run of this text, which may be empty: a primary-key bucket may begin with a KV snapshot that no change follows."""
    start, _, stop = text.partition("-")
    run = (int(start), int(stop))
    if not 0 <= run[0] <= run[1]:
        raise ValueError(f"it names the offsets {text!r}")
    return run


@dataclass(frozen=True)
class FileIdentity:
    """The identity that the files of one lake table must have. `partitions`: the ids of the living partitions, by name."""

    table: TableInfo
    lake_table_uuid: str
    partitions: Mapping[str, int]

    def complaint(self, footer: FileFooter, partition: str | None, bucket_id: int | None) -> str | None:
        """Returns what is wrong with a file in this place; None = nothing.

        `partition` None: the table has no partitions, or the partition is unknown. `bucket_id` None: the lake does not tell it. Partition
        ids are never reused, so the id of a partition that is not living is that of a former one of this name."""
        if not self.is_of_table(footer):
            return f"was written for the table {footer.table_id}/{footer.lake_table_uuid}"
        if (footer.bucket.partition_id is None) != (not self.table.partition_keys):
            return f"was written for the bucket {footer.bucket}"
        names = {partition_id: name for name, partition_id in self.partitions.items()}
        footer_partition = None if footer.bucket.partition_id is None else names.get(footer.bucket.partition_id)
        if partition is not None and footer_partition is not None and footer_partition != partition:
            return f"is in partition {partition}, but was written for partition {footer_partition}"
        if bucket_id is not None and bucket_id != footer.bucket.bucket_id:
            return f"is in bucket {bucket_id}, but was written for bucket {footer.bucket.bucket_id}"
        return None

    def is_of_table(self, footer: FileFooter) -> bool:
        """Whether the file was written for this source table and this lake table."""
        return (footer.table_id, footer.lake_table_uuid) == (self.table.table_id, self.lake_table_uuid)

    def is_former(self, footer: FileFooter, partition: str | None) -> bool:
        """Whether the file belongs to a former partition of this name."""
        return partition is not None and footer.bucket.partition_id != self.partitions.get(partition)
