"""DuckDB's count and order-free checksum of a lake table against its source rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

import duckdb
import pyarrow as pa
from pyiceberg.catalog import load_catalog

from tiering.cluster.base import Cluster
from tiering.model import TableInfo


@dataclass(frozen=True)
class Digest:
    """Rows, and the sum of the hashes of all rows over the source table's columns."""

    rows: int
    checksum: int


def lake_files(lake_properties: Mapping[str, str], table: TableInfo) -> list[str]:
    """Parquet files of the lake table's newest snapshot, as local paths."""
    catalog = load_catalog("lake", **dict(lake_properties))
    lake_table = catalog.load_table((table.path.database_name, table.path.table_name))
    return [unquote(urlparse(task.file.file_path).path) for task in lake_table.scan().plan_files()]


def digest_of_lake(files: list[str], columns: list[str]) -> Digest:
    """What DuckDB reads from the files."""
    connection = duckdb.connect()
    return _digest(connection, "read_parquet($files)", columns, {"files": files})


def digest_of_rows(source: pa.Table) -> Digest:
    """What DuckDB reads from the source."""
    connection = duckdb.connect()
    connection.register("source", source)
    return _digest(connection, "source", source.column_names, {})


def offsets_once(files: list[str], cluster: Cluster, table: TableInfo) -> bool:
    """Whether each bucket's offsets are exactly those of its log: none missing, none twice."""
    query = (
        'SELECT "__bucket", count(*), count(DISTINCT "__offset"), min("__offset"), max("__offset") + 1 FROM read_parquet($files) GROUP BY 1'
    )
    found = {row[0]: row[1:] for row in duckdb.connect().execute(query, {"files": files}).fetchall()}
    ends = {bucket.bucket_id: log.log_end for bucket, log in cluster.offsets(table).items() if log.log_end > 0}
    return found == {bucket: (end, end, 0, end) for bucket, end in ends.items()}


def _digest(connection: duckdb.DuckDBPyConnection, source: str, columns: list[str], parameters: dict[str, object]) -> Digest:
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    row = connection.execute(f"SELECT count(*), coalesce(sum(hash({names})::HUGEINT), 0) FROM {source}", parameters).fetchone()
    assert row is not None
    return Digest(int(row[0]), int(row[1]))
