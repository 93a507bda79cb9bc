"""An embedded cluster's folder, read while nothing runs, or beside a running coordinator: never written to.

Each answer is one moment of the metadata. Segments are immutable; one that the log's retention deletes meanwhile is an error
that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa

from tiering.cluster.embedded.log.log_index import LogIndex
from tiering.cluster.embedded.metadata import table_rows
from tiering.cluster.embedded.metadata.database import FILE_NAME, FORMAT_VERSION, Metadata, facts
from tiering.cluster.embedded.stored_cluster import StoredCluster
from tiering.errors import SetupError
from tiering.files.sqlite_files import distrust, read_only_url
from tiering.model.tables import TableInfo, TablePath


class ReadOnlyEmbeddedCluster(StoredCluster):
    """A `ReadOnlyCluster`. Raises SetupError: no such folder, made by another version."""

    def __init__(self, root: Path) -> None:
        metadata = _open_metadata(root.absolute())
        super().__init__(root.absolute(), metadata, LogIndex(metadata))

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """As `TableCatalog.tables`."""
        with self.metadata.read() as connection:
            return table_rows.list_tables(connection, database_name)

    def table(self, path: TablePath) -> TableInfo:
        """As `TableCatalog.table`."""
        with self.metadata.read() as connection:
            return table_rows.find_table(connection, path).info

    def close(self) -> None:
        """As `SplitSource.close`."""
        self.metadata.close()


def _open_metadata(root: Path) -> Metadata:
    file = root / FILE_NAME
    if not file.is_file():
        raise SetupError(f"{root} holds no embedded cluster: {FILE_NAME} is missing", hint="Name a Lakeward data folder.")
    engine = sa.create_engine(read_only_url(file))
    try:
        distrust(engine)
        with engine.connect() as connection:
            known = dict(connection.execute(sa.select(facts.c.name, facts.c.value)).all())
    except sa.exc.SQLAlchemyError as error:
        engine.dispose()
        raise SetupError(f"cannot read {file}: {error}", hint="Is it a Lakeward data folder?") from error
    version = int(known.get("format_version", "0"))
    if version != FORMAT_VERSION:
        engine.dispose()
        newer = version > FORMAT_VERSION
        raise SetupError(
            f"{root} was written by {'a newer' if newer else 'an older'} version (format {version}, known {FORMAT_VERSION})",
            hint="Upgrade Lakeward." if newer else "Start `lakeward up` on it once: it brings the folder up to date.",
        )
    return Metadata(engine, known["cluster_id"])
