"""The embedded cluster's metadata: one SQLite file, which one process writes through SQLAlchemy Core.

It uses WAL with synchronous=FULL: a transaction that has returned survives a power failure. Times are microseconds since the epoch. Ids of
tables and partitions come from AUTOINCREMENT, so that an id is never reused. A file belongs to the log only through its segment row:
readers ignore a file without a row. Each change of a table's columns adds a row to `table_schemas`; files refer to the columns with which
they were written, and are never rewritten.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa

from tiering.clock import Ids
from tiering.errors import ClusterUnavailable, SetupError
from tiering.files.sqlite_files import harden, sqlite_url
from tiering.library_guards.arrow_ipc import read_schema
from tiering.model.schema.field_ids import with_field_ids
from tiering.model.tables import BucketKey

FILE_NAME = "meta.db"
FORMAT_VERSION = 6
"""2: partitions, and columns added later. 3: primary keys. 4: records that a KV state refused. 5: writes by SHA-256. 6: all versions of a
table's columns. Older formats are upgraded when the folder is opened (`upgrade`).
"""
FIRST_SCHEMA = 1
"""The schema id of a new table, and of each table of an older format."""
NO_PARTITION = 0
"""The partition id of buckets in a table without partitions. It is part of a key and hence not NULL. Real ids start at 1."""

_schema = sa.MetaData()


def _schema_id() -> sa.Column[int]:
    """Returns the column that refers to the columns with which rows were written."""
    return sa.Column("schema_id", sa.Integer, nullable=False, server_default=str(FIRST_SCHEMA))


facts = sa.Table("facts", _schema, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))

databases = sa.Table(
    "databases",
    _schema,
    sa.Column("folded_name", sa.Text, primary_key=True, comment="lower case: names that differ only in case are the same"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)

tables = sa.Table(
    "tables",
    _schema,
    sa.Column("table_id", sa.Integer, primary_key=True),
    sa.Column("database_name", sa.Text, sa.ForeignKey("databases.name"), nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("folded_name", sa.Text, nullable=False),
    sa.Column("schema_id", sa.Integer, nullable=False, server_default="1", comment="id of its present columns in table_schemas"),
    sa.Column("bucket_count", sa.Integer, nullable=False),
    sa.Column("bucket_keys", sa.JSON, nullable=False),
    sa.Column("bucketing", sa.Text, nullable=False),
    sa.Column("partition_keys", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("primary_key", sa.JSON, nullable=False, server_default="[]", comment="empty = a log table"),
    sa.Column("created_columns", sa.Integer, nullable=False, server_default="0", comment="number of columns at the table's creation"),
    sa.Column("properties", sa.JSON, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Column("lake_enabled_us", sa.BigInteger),
    sa.UniqueConstraint("database_name", "folded_name"),
    sqlite_autoincrement=True,
)

table_schemas = sa.Table(
    "table_schemas",
    _schema,
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("schema_id", sa.Integer, primary_key=True),
    sa.Column("schema", sa.LargeBinary, nullable=False, comment="columns with field ids, as an Arrow IPC message"),
    sa.Column("change_id", sa.Text, comment="id of the request that made these columns"),
    sqlite_with_rowid=False,
)

partitions = sa.Table(
    "partitions",
    _schema,
    sa.Column("partition_id", sa.Integer, primary_key=True),
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), nullable=False),
    sa.Column("partition_name", sa.Text, nullable=False),
    sa.UniqueConstraint("table_id", "partition_name"),
    sqlite_autoincrement=True,
)

buckets = sa.Table(
    "buckets",
    _schema,
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("partition_id", sa.Integer, primary_key=True, server_default=str(NO_PARTITION)),
    sa.Column("bucket_id", sa.Integer, primary_key=True),
    sa.Column("log_start", sa.BigInteger, nullable=False),
    sa.Column("log_end", sa.BigInteger, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("last_commit_us", sa.BigInteger, nullable=False),
)

segments = sa.Table(
    "segments",
    _schema,
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("partition_id", sa.Integer, primary_key=True, server_default=str(NO_PARTITION)),
    sa.Column("bucket_id", sa.Integer, primary_key=True),
    sa.Column("starting_offset", sa.BigInteger, primary_key=True),
    sa.Column("stopping_offset", sa.BigInteger, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("crc32", sa.BigInteger, nullable=False),
    sa.Column("commit_us", sa.BigInteger, nullable=False),
    sa.Column("columns", sa.Integer, nullable=False, comment="number of the schema's columns, from the first, in the file"),
    _schema_id(),
    sqlite_with_rowid=False,
)

appends = sa.Table(
    "appends",
    _schema,
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("writer_id", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("fingerprint", sa.BigInteger, nullable=False, comment="CRC-32 of the rows: the only checksum in format 4"),
    sa.Column(
        "ranges",
        sa.JSON,
        nullable=False,
        comment="[bucket id, starting offset, stopping offset, partition id, partition name] each; older rows lack the last one or two",
    ),
    sa.Column("sha256", sa.Text, comment="SHA-256 of the rows; NULL = written by format 4"),
    _schema_id(),
    sqlite_with_rowid=False,
)

refused_records = sa.Table(
    "refused_records",
    _schema,
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("partition_id", sa.Integer, primary_key=True),
    sa.Column("bucket_id", sa.Integer, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("value", sa.Text, nullable=False, comment="as text, shortened"),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("refused_us", sa.BigInteger, nullable=False),
    sa.Column("skipped_us", sa.BigInteger, comment="NULL = the bucket is stopped here"),
    sa.Column("skipped_by", sa.Text),
    sa.Column("reason", sa.Text),
    sqlite_with_rowid=False,
)

kv_snapshots = sa.Table(
    "kv_snapshots",
    _schema,
    sa.Column("snapshot_id", sa.Integer, primary_key=True),
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), nullable=False),
    sa.Column("partition_id", sa.Integer, nullable=False),
    sa.Column("bucket_id", sa.Integer, nullable=False),
    sa.Column("log_offset", sa.BigInteger, nullable=False),
    sa.Column("columns", sa.Integer, nullable=False, comment="number of the schema's columns, from the first, in the files"),
    _schema_id(),
    sa.Column("files", sa.JSON, nullable=False, comment="[path, size in bytes, CRC-32, rows] each, in order"),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Index("kv_snapshots_of_bucket", "table_id", "partition_id", "bucket_id"),
    sqlite_autoincrement=True,
)

leases = sa.Table(
    "leases",
    _schema,
    sa.Column("lease_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text),
    sa.Column("acquired_us", sa.BigInteger, nullable=False),
    sa.Column("renewed_us", sa.BigInteger, nullable=False),
    sa.Column("ttl_ms", sa.BigInteger, nullable=False),
)

leased_snapshots = sa.Table(
    "leased_snapshots",
    _schema,
    sa.Column("lease_id", sa.Text, sa.ForeignKey("leases.lease_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("table_id", sa.Integer, primary_key=True),
    sa.Column("partition_id", sa.Integer, primary_key=True),
    sa.Column("bucket_id", sa.Integer, primary_key=True),
    sa.Column("snapshot_id", sa.Integer, sa.ForeignKey("kv_snapshots.snapshot_id", ondelete="CASCADE"), nullable=False),
    sa.Index("leased_by_snapshot", "snapshot_id"),
)

dropped_partitions = sa.Table(
    "dropped_partitions",
    _schema,
    sa.Column("partition_id", sa.Integer, primary_key=True),
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), nullable=False),
    sa.Column("partition_name", sa.Text, nullable=False),
    sa.Column("untiered_records", sa.BigInteger, nullable=False),
    comment="partitions whose drop is not reported yet",
)

lake_snapshots = sa.Table(
    "lake_snapshots",
    _schema,
    sa.Column("table_id", sa.Integer, sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("lake_snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("offsets", sa.JSON, nullable=False, comment="bucket (as BucketKey prints it) -> offset"),
)


@lru_cache(maxsize=10_000)
def bucket_key(partition_id: int | None, bucket_id: int) -> BucketKey:
    """Returns the bucket to which a row belongs; `NO_PARTITION` becomes None."""
    return BucketKey(partition_id or None, bucket_id)


def among(table_ids: Iterable[int]) -> sa.Select[tuple[int]]:
    """Returns the ids as one parameter for `column.in_(...)`: SQLite limits the number of parameters, and the statement text stays the
    same.
    """
    return sa.select(sa.func.json_each(json.dumps(list(table_ids))).table_valued("value").c.value)


def stored_partition(bucket: BucketKey) -> int:
    """Returns the stored partition id of a bucket; None becomes `NO_PARTITION`."""
    return NO_PARTITION if bucket.partition_id is None else bucket.partition_id


def bucket_columns(table_id: int, bucket: BucketKey) -> dict[str, int]:
    """Returns the values of the columns that name a bucket."""
    return {"table_id": table_id, "partition_id": stored_partition(bucket), "bucket_id": bucket.bucket_id}


def in_bucket(table: sa.Table, table_id: int, bucket: BucketKey) -> sa.ColumnElement[bool]:
    """Returns the condition that a row of `table` belongs to the bucket."""
    return sa.and_(*(table.c[name] == value for name, value in bucket_columns(table_id, bucket).items()))


class Metadata:
    """The open file. Each read sees one moment; writes wait for each other and are durable when their block ends."""

    def __init__(self, engine: sa.Engine, cluster_id: str) -> None:
        self._engine = engine
        self._write_lock = threading.Lock()
        self.cluster_id = cluster_id

    @staticmethod
    def open(root: Path, ids: Ids) -> Metadata:
        """Opens the file under `root`, or creates it. Raises SetupError (newer format, not writable)."""
        engine = sa.create_engine(sqlite_url(str(root / FILE_NAME)), pool_size=16, max_overflow=16)
        sa.event.listen(engine, "connect", _prepare_connection)
        sa.event.listen(engine, "begin", _begin)
        try:
            harden(engine)
            with engine.begin() as connection:
                facts.create(connection, checkfirst=True)
                version = int(_fact(connection, "format_version", str(FORMAT_VERSION)))
                if version < FORMAT_VERSION:
                    upgrade(connection, _schema, version)
                    connection.execute(sa.update(facts).where(facts.c.name == "format_version").values(value=str(FORMAT_VERSION)))
                if version <= FORMAT_VERSION:
                    _schema.create_all(connection)
                cluster_id = _fact(connection, "cluster_id", ids.new_id())
        except sa.exc.SQLAlchemyError as error:
            engine.dispose()
            raise SetupError(
                f"cannot open the cluster's metadata {root / FILE_NAME}: {error}",
                hint="Check that the folder is writable and the disk not full.",
            ) from error
        if version > FORMAT_VERSION:
            engine.dispose()
            raise SetupError(f"{root} was written by a newer version (format {version}, known {FORMAT_VERSION})", hint="Upgrade Lakeward.")
        return Metadata(engine, cluster_id)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Opens a transaction that sees one moment. Raises ClusterUnavailable."""
        with _guarded(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Opens a transaction that may write. Only one exists at a time, so the values that it reads stay valid until its end. Raises
        ClusterUnavailable.
        """
        with self._write_lock, _guarded(), self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def _guarded() -> Iterator[None]:
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        raise ClusterUnavailable(f"the cluster's metadata failed: {error}") from error


def _prepare_connection(connection: object, _record: object) -> None:
    # SQLAlchemy's recipe for pysqlite: the driver must not issue BEGIN itself, so that reads are transactions too.
    connection.isolation_level = None  # type: ignore[attr-defined]
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _fact(connection: sa.Connection, name: str, default: str) -> str:
    value = connection.scalar(sa.select(facts.c.value).where(facts.c.name == name))
    if value is not None:
        return str(value)
    connection.execute(sa.insert(facts).values(name=name, value=default))
    return default


def upgrade(connection: sa.Connection, schema: sa.MetaData, version: int) -> None:
    """Upgrades the metadata from format `version` to `schema`; segment files stay unchanged."""
    if version < 5:
        connection.execute(sa.text("ALTER TABLE appends ADD COLUMN sha256 TEXT"))
    if version < 3:
        connection.execute(sa.text("ALTER TABLE tables ADD COLUMN primary_key JSON NOT NULL DEFAULT '[]'"))
    if version < 2:
        _add_partitions(connection, schema)
    _add_schemas(connection, schema, version)


def _add_partitions(connection: sa.Connection, schema: sa.MetaData) -> None:
    """Rewrites `tables`, `buckets` and `segments` of format 1."""
    for statement in (
        "ALTER TABLE tables ADD COLUMN partition_keys JSON NOT NULL DEFAULT '[]'",
        "ALTER TABLE tables ADD COLUMN created_columns INTEGER NOT NULL DEFAULT 0",
    ):
        connection.execute(sa.text(statement))
    for table_id, serialized in connection.execute(sa.text("SELECT table_id, schema FROM tables")).all():
        numbers = {"columns": len(read_schema(serialized)), "table_id": table_id}
        connection.execute(sa.text("UPDATE tables SET created_columns = :columns WHERE table_id = :table_id"), numbers)
    _rebuild(connection, schema.tables["buckets"], {"partition_id": "0"})
    columns_of_table = "(SELECT created_columns FROM tables WHERE tables.table_id = segments_v1.table_id)"
    _rebuild(connection, schema.tables["segments"], {"partition_id": "0", "columns": columns_of_table, "schema_id": str(FIRST_SCHEMA)})


def _add_schemas(connection: sa.Connection, schema: sa.MetaData, version: int) -> None:
    """Gives field ids to the columns of each table, which become its first schema. All its files have the first columns of it."""
    schemas = schema.tables["table_schemas"]
    schemas.create(connection)
    for table_id, serialized in connection.execute(sa.text("SELECT table_id, schema FROM tables")).all():
        content = with_field_ids(read_schema(serialized)).serialize().to_pybytes()
        connection.execute(sa.insert(schemas).values(table_id=table_id, schema_id=FIRST_SCHEMA, schema=content))
    connection.execute(sa.text("ALTER TABLE tables DROP COLUMN schema"))
    with_ids = ["tables", "appends", *(["segments"] if version >= 2 else []), *(["kv_snapshots"] if version >= 3 else [])]
    for name in with_ids:
        connection.execute(sa.text(f"ALTER TABLE {name} ADD COLUMN schema_id INTEGER NOT NULL DEFAULT '{FIRST_SCHEMA}'"))


def _rebuild(connection: sa.Connection, table: sa.Table, added: dict[str, str]) -> None:
    """Copies a table into one with another primary key, because SQLite cannot change it in place. `added` has the SQL for columns that
    format 1 lacks.
    """
    old = f"{table.name}_v1"
    connection.execute(sa.text(f"ALTER TABLE {table.name} RENAME TO {old}"))
    table.create(connection)
    names = [column.name for column in table.columns]
    values = ", ".join(added.get(name, name) for name in names)
    connection.execute(sa.text(f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {old}"))
    connection.execute(sa.text(f"DROP TABLE {old}"))
