"""Reads an embedded cluster's folder while no coordinator runs, or beside a running one; never writes to it.

Each answer shows the metadata at one moment. Segments are immutable; if log retention deletes one in the meantime, the error says so.
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
    """A `ReadOnlyCluster`. Raises SetupError if the folder does not exist or is of another version."""

    def __init__(self, root: Path) -> None:
        metadata = _open_metadata(root.absolute())
        super().__init__(root.absolute(), metadata, LogIndex(metadata))

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns tables, sorted by path. Implements `TableCatalog.tables`."""
        with self.metadata.read() as connection:
            return table_rows.list_tables(connection, database_name)

    def table(self, path: TablePath) -> TableInfo:
        """Returns one table. Implements `TableCatalog.table`."""
        with self.metadata.read() as connection:
            return table_rows.find_table(connection, path).info

    def close(self) -> None:
        """Closes the metadata. Implements `SplitSource.close`."""
        self.metadata.close()


def _open_metadata(root: Path) -> Metadata:
    file = root / FILE_NAME
    if not file.is_file():
        raise SetupError(f"{root} has no embedded cluster: {FILE_NAME} is missing", hint="Name a Lakeward data folder.")
    engine = sa.create_engine(read_only_url(file))
    try:
        distrust(engine)
        with engine.connect() as connection:
            stored_facts = dict(connection.execute(sa.select(facts.c.name, facts.c.value)).all())
    except sa.exc.SQLAlchemyError as error:
        engine.dispose()
        raise SetupError(f"cannot read {file}: {error}", hint="Check that it is a Lakeward data folder.") from error
    version = int(stored_facts.get("format_version", "0"))
    if version != FORMAT_VERSION:
        engine.dispose()
        newer = version > FORMAT_VERSION
        raise SetupError(
            f"{root} was written by {'a newer' if newer else 'an older'} version (format {version}, known {FORMAT_VERSION})",
            hint="Upgrade Lakeward." if newer else "Start `lakeward up` on it once to upgrade the folder.",
        )
    return Metadata(engine, stored_facts["cluster_id"])
