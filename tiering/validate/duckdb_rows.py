"""The rows of a lake snapshot in DuckDB, read directly from its files: the Parquet rows without those that delete files name.

It uses neither Spark nor the lake's own reader. Columns are found by their names or by their field ids. Any name is possible: the table's
columns are renamed, so that they do not collide with DuckDB's own columns `filename` and `file_row_number`. Source of the delete rules:
Iceberg spec, "Scan Planning"; of the rules for ids: "Column Projection".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from tiering.errors import DataCorrupt, InvalidArgument
from tiering.lake.file_lists import EqualityDeletes, FileLists, LakeFile, MergeRule
from tiering.lake.schema.changed_columns import present_rows
from tiering.lake.schema.sql_text import quoted, text_literal
from tiering.library_guards.duckdb_guard import duckdb_reason, lock

ROW_PLACE = ("filename", "file_row_number")
"""DuckDB's columns with the file of a row, and its number in the file from 0."""

RunQuery = Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]]
"""Runs SQL with named parameters in one connection."""


@dataclass(frozen=True)
class LiveRows:
    """The parts of `SELECT <expression>, ... FROM <relation>`. They are valid as long as the connection.

    `types`: DuckDB's type of each column in the files. `expressions`: the SQL expression of each requested column.
    """

    types: Mapping[str, str]
    expressions: Mapping[str, str]
    relation: str
    stored: str = ""
    """SQL of all rows of the data files, also of deleted rows and of rows that a newer row of their key replaces."""


@dataclass(frozen=True)
class LakeColumns:
    """The columns of a lake table, and how they are found in its files: by `fields` if given, else by `field_ids` if given, else by name.

    `types`: DuckDB's type by name, for columns that no file has yet. `field_ids`: the lake's id of each column; so a column is found after
    it was renamed or got another type, but not the fields in it. `fields`: the columns with the lake's ids at every depth.
    """

    types: Mapping[str, str]
    field_ids: Mapping[str, int] | None = None
    fields: pa.Schema | None = None


def live_rows(run: RunQuery, files: FileLists, requested: LakeColumns, table: object, prefix: str = "") -> LiveRows:
    """Returns the live rows of a snapshot with at least one data file. `table` is for errors, `prefix` for the names of helper tables.

    Raises duckdb.Error, InvalidArgument (equality deletes by a column that is not requested; files without field ids), DataCorrupt (files
    without columns to merge by).
    """
    reading = _Reading(run, requested, table, prefix)
    if requested.field_ids is not None:
        reading.check_field_ids(files.data)
    source = reading.parquet(files.data) if requested.fields is None else reading.by_fields(requested.fields, files)
    present = [(row[0], row[1]) for row in run(f"DESCRIBE SELECT * FROM {source}", {})]
    if requested.fields is not None:  # DuckDB gives a column another name if an earlier one has its name
        present = list(zip(reading.columns_by_fields(files), (kind for _, kind in present), strict=False))
    numbered = {column: f"d.c{number}" for number, (column, _) in enumerate(present)}
    expressions = {name: numbered.get(name, f"CAST(NULL AS {kind})") for name, kind in requested.types.items()}
    names = [*(f"c{number}" for number in range(len(present))), *(() if requested.fields is None else ROW_PLACE)]
    relation = stored = f"{source} AS d({', '.join(names)})"
    if files.position_deletes or files.equality_deletes or files.merge is not None:
        reading.make_file_table(files.data)
    if files.equality_deletes or files.merge is not None:
        relation += f" JOIN {prefix}files AS f ON f.path = d.filename"
    living = [*reading.not_at_dead_positions(files.position_deletes), *reading.not_equal_to_dead(expressions, files.equality_deletes)]
    if files.merge is not None:
        reading.check_merged(files.merge, files.data)
        relation += f" JOIN {newest_of_keys(relation, files.merge, numbered)} AS m ON {same_key(files.merge, numbered)}"
        living.append(f"{numbered[files.merge.kind]} IN ({', '.join(map(str, files.merge.live_kinds))})")
    return LiveRows(dict(present), expressions, f"{relation} WHERE {' AND '.join(living)}" if living else relation, stored)


def unreadable_file(files: Sequence[LakeFile], times_only: bool = False, at_most: int | None = None) -> str | None:
    """Returns which of the files DuckDB cannot read and why, with the column if it is a value; None if it can read all of them.

    A value may be readable and yet not be one that DuckDB can show, such as a timestamp before its first year. `times_only`: reads only
    columns with dates and timestamps. `at_most`: upper bound of the number of files to search.
    """
    searched = files[:at_most]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        lock(connection, [file.path for file in searched])
        return next((damage for file in searched if (damage := _damage(connection, file, times_only)) is not None), None)


def _damage(connection: duckdb.DuckDBPyConnection, file: LakeFile, times_only: bool) -> str | None:
    place = f"the lake file {file.label}"
    source = f"read_parquet({_paths([file])}, hive_partitioning = false)"
    try:
        columns = [row[:2] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
        if not times_only:
            connection.execute(f"SELECT count(hash(COLUMNS(*))) FROM {source}").fetchall()
        for name, value in ((name, quoted(name)) for name, kind in columns if "TIMESTAMP" in kind or "DATE" in kind):
            place = f"the column {name!r} of the lake file {file.label}"
            connection.execute(f"SELECT min({value}), max({value}), count(CAST({value} AS VARCHAR)) FROM {source}").fetchall()
    except duckdb.Error as error:
        return f"{place} cannot be read: {duckdb_reason(error)}"
    return None


def newest_of_keys(relation: str, rule: MergeRule, columns: Mapping[str, str]) -> str:
    """Returns SQL for the highest sequence number of each key in the files of each partition."""
    keys = ", ".join(f"{columns[name]} AS k{place}" for place, name in enumerate(rule.keys))
    return f"(SELECT f.part, {keys}, max({columns[rule.sequence]}) AS newest FROM {relation} GROUP BY ALL)"


def same_key(rule: MergeRule, columns: Mapping[str, str]) -> str:
    """Returns a SQL condition that is true for the newest row of each key."""
    keys = [f"m.k{place} = {columns[name]}" for place, name in enumerate(rule.keys)]
    return " AND ".join([*keys, "m.part = f.part", f"m.newest = {columns[rule.sequence]}"])


@dataclass(frozen=True)
class _Reading:
    run: RunQuery
    requested: LakeColumns
    table: object
    prefix: str

    def parquet(self, files: Sequence[LakeFile], columns: Sequence[str] | None = None) -> str:
        """Returns SQL for a relation of these files. `columns` None = all requested columns."""
        shape = "union_by_name = true" if self.requested.field_ids is None else self._by_id(self.requested.field_ids, columns)
        return f"read_parquet({_paths(files)}, {shape}, hive_partitioning = false)"

    def by_fields(self, fields: pa.Schema, files: FileLists) -> str:
        """Returns SQL for a relation of the data files, whose columns may have changed since, and ROW_PLACE."""
        columns = pa.schema([fields.field(name) for name in self.requested.types])
        return f"({present_rows(files.data, columns, self.columns_by_fields(files)[len(columns) :])})"

    def columns_by_fields(self, files: FileLists) -> Sequence[str]:
        """Returns the names of the columns of `by_fields` before ROW_PLACE: the requested ones, then others by which rows are merged."""
        merged = () if files.merge is None else files.merge.columns
        return [*self.requested.types, *(name for name in merged if name not in self.requested.types)]

    def _by_id(self, field_ids: Mapping[str, int], columns: Sequence[str] | None) -> str:
        fields = (
            f"{field_ids[name]}: {{name: {text_literal(name)}, type: {text_literal(self.requested.types[name])}, default_value: NULL}}"
            for name in (columns or self.requested.types)
        )
        return f"schema = MAP {{{', '.join(fields)}}}"

    def check_field_ids(self, files: Sequence[LakeFile]) -> None:
        """Raises InvalidArgument for a file without field ids. DuckDB would treat all its columns as missing, without an error."""
        sql = f"SELECT file_name FROM parquet_schema({_paths(files)}) GROUP BY file_name HAVING count(field_id) = 0 LIMIT 1"
        for (path,) in self.run(sql, {}):
            raise InvalidArgument(
                f"the file {path} of {self.table} has no field ids, so this version cannot tell which column is which",
                hint="Read the table with Spark, or rewrite its files with Spark (rewrite_data_files).",
            )

    def check_merged(self, rule: MergeRule, files: Sequence[LakeFile]) -> None:
        """Raises DataCorrupt for a file without the columns by which rows are merged. DuckDB would give NULL for them, without an error."""
        names = ", ".join(text_literal(name) for name in rule.columns)
        has_all = f"count(DISTINCT name) FILTER (name IN ({names})) = {len(rule.columns)}"
        sql = f"SELECT file_name FROM parquet_schema({_paths(files)}) GROUP BY file_name HAVING NOT {has_all} ORDER BY 1 LIMIT 1"
        for (path,) in self.run(sql, {}):
            raise DataCorrupt(
                f"the file {path} of {self.table} lacks one of the columns {', '.join(rule.columns)}, by which its rows are merged",
                hint="Was it written with the option `data-file.thin-mode`? If not, restore it from a backup of the warehouse.",
                table_path=self.table,
                lake_file=path,
            )

    def make_file_table(self, data: Sequence[LakeFile]) -> None:
        self.run(
            f"CREATE TEMP TABLE {self.prefix}files AS SELECT DISTINCT *, dense_rank() OVER (ORDER BY partition) AS part FROM "
            "(SELECT unnest($locations) AS location, unnest($paths) AS path, unnest($numbers)::BIGINT AS sequence_number, "
            "unnest($partitions) AS partition)",
            {
                "locations": [file.location for file in data],
                "paths": [file.path for file in data],
                "numbers": [file.sequence_number for file in data],
                "partitions": [file.partition for file in data],
            },
        )

    def not_at_dead_positions(self, deletes: Sequence[LakeFile]) -> list[str]:
        if not deletes:
            return []
        dead, files = f"{self.prefix}dead", f"{self.prefix}files"
        named = f"read_parquet({_paths(deletes)}, union_by_name = true, hive_partitioning = false)"
        self.run(
            f"CREATE TEMP TABLE {dead} AS SELECT DISTINCT f.path, p.pos FROM {named} AS p JOIN {files} AS f ON f.location = p.file_path", {}
        )
        return [f"NOT EXISTS (SELECT 1 FROM {dead} AS x WHERE x.path = d.filename AND x.pos = d.file_row_number)"]

    def not_equal_to_dead(self, expressions: Mapping[str, str], deletes: Sequence[EqualityDeletes]) -> list[str]:
        """Returns one condition for all files that delete by the same columns. Flink writes such a file at every checkpoint."""
        files_by_columns: dict[tuple[tuple[str, ...], bool], list[EqualityDeletes]] = {}
        for file in deletes:
            files_by_columns.setdefault((file.columns, file.everywhere), []).append(file)
        conditions = []
        for number, ((names, everywhere), files) in enumerate(files_by_columns.items()):
            self._check_columns(names, expressions, files[0])
            equal = f"{self.prefix}equal_{number}"
            self._make_equal_table(equal, names, files)
            keys = [f"e.k{place} IS NOT DISTINCT FROM {expressions[name]}" for place, name in enumerate(names)]
            same = [*keys, "e.sequence_number > f.sequence_number", *([] if everywhere else ["e.partition = f.partition"])]
            conditions.append(f"NOT EXISTS (SELECT 1 FROM {equal} AS e WHERE {' AND '.join(same)})")
        return conditions

    def _check_columns(self, names: Sequence[str], expressions: Mapping[str, str], file: EqualityDeletes) -> None:
        unknown = [name for name in names if name not in expressions]
        if unknown or not names:
            raise InvalidArgument(
                f"{file.path} deletes the rows of {self.table} that are equal in {', '.join(map(repr, unknown)) or 'no column'}, "
                "but the table has no such column: this version cannot apply the deletes",
                hint="Rewrite the lake table's files (rewrite_data_files): this applies its deletes.",
                table_path=self.table,
            )

    def _make_equal_table(self, name: str, columns: Sequence[str], files: Sequence[EqualityDeletes]) -> None:
        """Creates a table with the newest delete per partition and values. It deletes all rows that an older one deletes."""
        one_by_one = " UNION ALL ".join(
            f"SELECT {', '.join(f'{quoted(column)} AS k{place}' for place, column in enumerate(columns))}, "
            f"{text_literal('' if file.everywhere else file.partition)} AS partition, {file.sequence_number}::BIGINT AS number "
            f"FROM {self.parquet([file], columns)}"
            for file in files
        )
        self.run(
            f"CREATE TEMP TABLE {name} AS SELECT * EXCLUDE (number), max(number) AS sequence_number FROM ({one_by_one}) GROUP BY ALL", {}
        )


def _paths(files: Sequence[LakeFile]) -> str:
    return f"[{', '.join(text_literal(file.path) for file in files)}]"
