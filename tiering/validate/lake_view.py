"""The rows of a lake table as a DuckDB view: its Parquet files, less what its delete files name.

Columns are found by their names, whatever those are: DuckDB's own (`filename`, `file_row_number`) are told from the table's by
renaming the latter on the way. Rules of deletes: Iceberg spec, "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiering.errors import InvalidArgument
from tiering.lake.file_lists import EqualityDeletes, FileLists, LakeFile
from tiering.model import TableInfo

PARTITION_SEPARATOR = "$"
PLACE_COLUMN = "__place"
"""The name of a row's partition as the cluster joins it, "" without partitions. No column of a table begins with `__`."""

Run = Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]]


def quoted(name: str) -> str:
    """A name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class LakeColumns:
    """`types`: DuckDB's type of each column that any data file has. `expressions`: where the view takes each wanted column from."""

    types: Mapping[str, str]
    expressions: Mapping[str, str]


def make_lake_view(run: Run, table: TableInfo, files: FileLists, declared: Mapping[str, str], name: str) -> Mapping[str, str]:
    """Makes the view `name` of `TableInfo.lake_schema` and PLACE_COLUMN; the types that its files have.

    `declared`: the type of a column that no file has yet. At least one data file. Raises duckdb.Error, InvalidArgument (equality
    deletes by a column that the table does not have).
    """
    _make_file_table(run, files.data)
    present = [(row[0], row[1]) for row in run(f"DESCRIBE SELECT * FROM {_parquet(files.data)}", {})]
    numbered = {column: f"d.c{number}" for number, (column, _) in enumerate(present)}
    wanted = table.lake_schema().names
    columns = LakeColumns(dict(present), {one: numbered.get(one, f"CAST(NULL AS {declared[one]})") for one in wanted})
    picked = ", ".join(f"{columns.expressions[one]} AS {quoted(one)}" for one in wanted)
    source = f"{_parquet(files.data)} AS d({', '.join(f'c{number}' for number in range(len(present)))})"
    living = [*_not_at_dead_positions(run, files.position_deletes), *_not_equal_to_dead(run, table, columns, files.equality_deletes)]
    if files.equality_deletes:
        source += " JOIN files AS f ON f.path = d.filename"
    where = f"WHERE {' AND '.join(living)}" if living else ""
    run(f"CREATE TEMP VIEW {name} AS SELECT {picked}, {place_of(table, columns.expressions)} AS {PLACE_COLUMN} FROM {source} {where}", {})
    return columns.types


def place_of(table: TableInfo, expressions: Mapping[str, str]) -> str:
    """SQL: the partition's name, as the cluster joins it."""
    keys = [f"CAST({expressions[key]} AS VARCHAR)" for key in table.partition_keys]
    return f"concat_ws('{PARTITION_SEPARATOR}', {', '.join(keys)})" if keys else "''"


def _make_file_table(run: Run, data: Sequence[LakeFile]) -> None:
    run(
        "CREATE TEMP TABLE files AS SELECT DISTINCT * FROM (SELECT unnest($locations) AS location, unnest($paths) AS path, "
        "unnest($numbers)::BIGINT AS sequence_number, unnest($partitions) AS partition)",
        {
            "locations": [one.location for one in data],
            "paths": [one.path for one in data],
            "numbers": [one.sequence_number for one in data],
            "partitions": [one.partition for one in data],
        },
    )


def _parquet(files: Sequence[LakeFile]) -> str:
    paths = ", ".join(text_literal(one.path) for one in files)
    return f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


def _not_at_dead_positions(run: Run, deletes: Sequence[LakeFile]) -> list[str]:
    if not deletes:
        return []
    named = f"{_parquet(deletes)} AS p JOIN files ON files.location = p.file_path"
    run(f"CREATE TEMP TABLE dead AS SELECT DISTINCT files.path, pos FROM {named}", {})
    return ["NOT EXISTS (SELECT 1 FROM dead WHERE dead.path = d.filename AND dead.pos = d.file_row_number)"]


def _not_equal_to_dead(run: Run, table: TableInfo, columns: LakeColumns, deletes: Sequence[EqualityDeletes]) -> list[str]:
    """One condition for all files that delete by the same columns: others write such a file with every checkpoint."""
    alike: dict[tuple[tuple[str, ...], bool], list[EqualityDeletes]] = {}
    for one in deletes:
        alike.setdefault((one.columns, one.everywhere), []).append(one)
    conditions = []
    for number, ((names, everywhere), files) in enumerate(alike.items()):
        unknown = [name for name in names if name not in columns.expressions]
        if unknown or not names:
            raise InvalidArgument(
                f"{files[0].path} deletes the rows of {table.path} that are equal in {', '.join(map(repr, unknown)) or 'no column'}, "
                "which is no column of the table: this version cannot apply it",
                hint="Rewrite the lake table's files (rewrite_data_files), so that its deletes are applied for good.",
                table_path=table.path,
            )
        _make_equal_table(run, f"equal_{number}", names, files)
        keys = [f"e.k{place} IS NOT DISTINCT FROM {columns.expressions[name]}" for place, name in enumerate(names)]
        same = [*keys, "e.sequence_number > f.sequence_number", *([] if everywhere else ["e.partition = f.partition"])]
        conditions.append(f"NOT EXISTS (SELECT 1 FROM equal_{number} AS e WHERE {' AND '.join(same)})")
    return conditions


def _make_equal_table(run: Run, name: str, columns: Sequence[str], files: Sequence[EqualityDeletes]) -> None:
    """Per partition and values the newest delete: it takes what any older one takes."""
    keys = ", ".join(f"{quoted(column)} AS k{place}" for place, column in enumerate(columns))
    one_by_one = " UNION ALL ".join(
        f"SELECT {keys}, {text_literal('' if one.everywhere else one.partition)} AS partition, "
        f"{one.sequence_number}::BIGINT AS number FROM {_parquet([one])}"
        for one in files
    )
    run(f"CREATE TEMP TABLE {name} AS SELECT * EXCLUDE (number), max(number) AS sequence_number FROM ({one_by_one}) GROUP BY ALL", {})
