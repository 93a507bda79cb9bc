"""All schemas that a table has had, so that record batches of any age can be decoded wherever they are read."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tiering.cluster.fluss.log.schemas import parse_schema_json
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import SourceChanged
from tiering.model.tables import TableInfo
from tiering.rpc.fluss import fluss_pb2 as fluss


class SchemaHistory:
    """The schemas of tables, by table id; schemas never change, so each is asked for once. Safe to use from several threads."""

    def __init__(self, client: FlussClient) -> None:
        self._client = client
        self._schemas: dict[int, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def of(self, table: TableInfo) -> Mapping[int, bytes]:
        """Returns schema id -> its JSON, from the first to one that has the columns of `table`.

        Raises SourceChanged if another table has its name now, UnknownTable, ClusterUnavailable.
        """
        with self._lock:
            known = self._schemas.get(table.table_id, {})
        if not known or not _has_columns(known[max(known)], table):
            known = self._ask(table, known)
            with self._lock:
                self._schemas[table.table_id] = known
        return known

    def _ask(self, table: TableInfo, known: Mapping[int, bytes]) -> dict[int, bytes]:
        """Asks for the schemas that are not known. GetTableSchema goes by name, so the table id is checked behind it: a namesake's
        schemas are never taken.
        """
        path = fluss.PbTablePath(database_name=table.path.database_name, table_name=table.path.table_name)
        newest = self._client.coordinator(fluss.GetTableInfoRequest(table_path=path)).schema_id
        schemas = dict(known)
        for schema_id in range(1, newest + 1):
            if schema_id not in schemas:
                request = fluss.GetTableSchemaRequest(table_path=path, schema_id=schema_id)
                schemas[schema_id] = self._client.coordinator(request).schema_json
        if self._client.coordinator(fluss.GetTableInfoRequest(table_path=path)).table_id != table.table_id:
            raise SourceChanged(f"{table.path} was dropped and made anew", table_id=table.table_id)
        return schemas


def _has_columns(schema_json: bytes, table: TableInfo) -> bool:
    names = {column.name for column in parse_schema_json(schema_json).columns}
    return names.issuperset(table.schema.names)
