"""Reads the footers of a clean table's data files with DuckDB, and makes the view that adds bucket and offset to each row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiering.lake.column_names import RESERVED_PREFIX
from tiering.lake.file_lists import LakeFile
from tiering.lake.proof.backfilled_rows import BackfillFooter, decode_backfill_footer
from tiering.lake.proof.file_footer import PREFIX, FileFooter, FileIdentity, decode_footer
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, BucketKey
from tiering.validate.duckdb_rows import RunQuery
from tiering.validate.lake_view import FILE_COLUMN, ROW_COLUMN

PARTITION_COLUMN = f"{RESERVED_PREFIX}partition"
"""Column with the id of a row's partition; NULL if the file does not have it."""
OURS_COLUMN = f"{RESERVED_PREFIX}ours"
"""Column that is true for a row in a file with a footer of Lakeward."""
SORTED_FILE_COLUMN = f"{RESERVED_PREFIX}sorted_file"
"""Column with the path of a row's file in a bucket with sorted files; NULL in other buckets. The offset of a row in a sorted file is one of
the file's offsets, but not its own: each offset is given to one row, so that missing and doubled rows show."""
BACKFILLED_COLUMN = f"{RESERVED_PREFIX}backfilled"
"""Column that is true for a row in a file of a backfill that the marker names."""
FILE_PREFIX = "lakeward-"
FILES_AT_A_TIME = 1_000


@dataclass(frozen=True)
class FileFacts:
    """A live data file. `footer` is None if another program wrote the file, or if a file of Lakeward was changed. `problem`: what is wrong
    with a file of Lakeward. `backfill` is the footer of a file that `CALL sys.backfill_table` wrote."""

    file: LakeFile
    footer: FileFooter | None = None
    problem: str | None = None
    backfill: BackfillFooter | None = None

    @property
    def bucket(self) -> int | None:
        """Bucket of the file's rows; None if only their partition is known."""
        return self.file.bucket if self.footer is None else self.footer.bucket.bucket_id


def read_footers(run: RunQuery, files: Sequence[LakeFile], identity: FileIdentity) -> tuple[FileFacts, ...]:
    """Returns the facts of each file. Raises duckdb.Error."""
    metadata = footer_entries(run, files)
    return tuple(_facts(file, metadata.get(file.path, {}), identity) for file in files)


def footer_entries(run: RunQuery, files: Sequence[LakeFile]) -> dict[str, dict[str, str]]:
    """Returns Lakeward's entries in the footers, by the path of the file. Files without entries are left out. Raises duckdb.Error."""
    entries: dict[str, dict[str, str]] = {}
    sql = f"SELECT file_name, decode(key), decode(value) FROM parquet_kv_metadata($paths) WHERE decode(key) LIKE '{PREFIX}%'"
    for first in range(0, len(files), FILES_AT_A_TIME):
        for path, key, value in run(sql, {"paths": [file.path for file in files[first : first + FILES_AT_A_TIME]]}):
            entries.setdefault(path, {})[key] = value
    return entries


def _facts(file: LakeFile, metadata: dict[str, str], identity: FileIdentity) -> FileFacts:
    name = file.location.rpartition("/")[2]
    try:
        footer, backfill = decode_footer(metadata), decode_backfill_footer(metadata)
    except ValueError as error:
        return FileFacts(file, problem=f"the footer of the file {file.path} cannot be read: {error}")
    if backfill is not None and name.startswith(f"{FILE_PREFIX}{backfill.round_id}-"):
        return FileFacts(file, backfill=backfill)
    if footer is None:
        is_ours = name.startswith(FILE_PREFIX)
        return FileFacts(
            file, problem=f"the file {file.path} has lost its footer: another program rewrote it in place" if is_ours else None
        )
    if not name.startswith(f"{FILE_PREFIX}{footer.round_id}-"):
        if name.startswith(FILE_PREFIX):
            return FileFacts(file, problem=f"the file {file.path} has the footer of a file of round {footer.round_id}")
        return FileFacts(file)  # a tool copied the footer when it rewrote the file
    complaint = identity.complaint(footer, file.place or None, file.bucket)
    if complaint is not None and not identity.is_of_table(footer):
        return FileFacts(file, problem=f"the file {file.path} {complaint}")
    if footer.rows != file.records:
        return FileFacts(file, problem=f"the footer of the file {file.path} tells of {footer.rows} rows; the lake has {file.records}")
    return FileFacts(file, footer, None if complaint is None else f"the file {file.path} {complaint}")


def sorted_buckets(facts: Sequence[FileFacts]) -> frozenset[BucketKey]:
    """Returns the buckets with sorted files, whose rows do not tell their offsets."""
    return frozenset(fact.footer.bucket for fact in facts if fact.footer is not None and fact.footer.is_sorted)


def make_footer_view(run: RunQuery, facts: Sequence[FileFacts], rows: str, name: str, backfilled: Collection[str] = ()) -> None:
    """Makes the view `name` of `rows` with `__bucket`, `__offset` (NULL if no footer has it), and this module's columns.

    `backfilled` has the paths of files of backfills.
    """
    flags = "is_ours BOOLEAN, is_of_sorted_bucket BOOLEAN, is_backfilled BOOLEAN"
    run(f"CREATE TEMP TABLE file_facts (path VARCHAR, bucket INTEGER, partition_id BIGINT, {flags})", {})
    run("CREATE TEMP TABLE file_runs (path VARCHAR, first BIGINT, stop BIGINT, start BIGINT)", {})
    places: list[tuple[str, int | None, int | None, bool, bool, bool]] = []
    runs: list[tuple[str, int, int, int]] = []
    buckets_of_sorted_files = sorted_buckets(facts)
    for fact in {fact.file.path: fact for fact in facts}.values():  # a file that is listed twice is read twice
        partition_id = None if fact.footer is None else fact.footer.bucket.partition_id
        is_of_sorted_bucket = fact.footer is not None and fact.footer.bucket in buckets_of_sorted_files
        places.append(
            (fact.file.path, fact.bucket, partition_id, fact.footer is not None, is_of_sorted_bucket, fact.file.path in backfilled)
        )
        first = 0
        for start, stop in () if fact.footer is None else fact.footer.runs:
            runs.append((fact.file.path, first, first + stop - start, start))
            first += stop - start
    for table, values in (("file_facts", places), ("file_runs", runs)):
        columns = [list(column) for column in zip(*values, strict=True)]
        if columns:
            parameters: dict[str, object] = {f"c{number}": column for number, column in enumerate(columns)}
            run(f"INSERT INTO {table} SELECT {', '.join(f'unnest(${column})' for column in parameters)}", parameters)
    run(
        f"CREATE TEMP VIEW {name} AS SELECT r.* EXCLUDE ({FILE_COLUMN}, {ROW_COLUMN}), f.bucket AS {BUCKET_COLUMN}, "
        f"o.start + (r.{ROW_COLUMN} - o.first) AS {OFFSET_COLUMN}, f.partition_id AS {PARTITION_COLUMN}, f.is_ours AS {OURS_COLUMN}, "
        f"CASE WHEN f.is_of_sorted_bucket THEN f.path END AS {SORTED_FILE_COLUMN}, f.is_backfilled AS {BACKFILLED_COLUMN} "
        f"FROM {rows} AS r JOIN file_facts AS f ON f.path = r.{FILE_COLUMN} "
        f"LEFT JOIN file_runs AS o ON o.path = r.{FILE_COLUMN} AND r.{ROW_COLUMN} >= o.first AND r.{ROW_COLUMN} < o.stop",
        {},
    )
