"""All schemas that a table has had, so that record batches of any age can be decoded anywhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tiering.cluster.fluss.log.schemas import parse_schema_json
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import SourceChanged
from tiering.model.tables import TableInfo
from tiering.rpc.fluss import fluss_pb2 as fluss


class SchemaHistory:
    """The schemas of tables, by table id. Schemas never change, so each is requested once. Safe to use from several threads."""

    def __init__(self, client: FlussClient) -> None:
        self._client = client
        self._schemas: dict[int, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def of(self, table: TableInfo) -> Mapping[int, bytes]:
        """Returns schema id -> its JSON, from the first to one that has the columns of `table`.

        Raises SourceChanged if another table has its name now, UnknownTable, ClusterUnavailable.
        """
        with self._lock:
            known_schemas = self._schemas.get(table.table_id, {})
        if not known_schemas or not _has_columns(known_schemas[max(known_schemas)], table):
            known_schemas = self._ask(table, known_schemas)
            with self._lock:
                self._schemas[table.table_id] = known_schemas
        return known_schemas

    def _ask(self, table: TableInfo, known_schemas: Mapping[int, bytes]) -> dict[int, bytes]:
        """Requests the missing schemas. GetTableSchema takes a name, so the table id is checked afterwards: schemas of another table with
        that name are never used.
        """
        path = fluss.PbTablePath(database_name=table.path.database_name, table_name=table.path.table_name)
        newest = self._client.coordinator(fluss.GetTableInfoRequest(table_path=path)).schema_id
        schemas = dict(known_schemas)
        for schema_id in range(1, newest + 1):
            if schema_id not in schemas:
                request = fluss.GetTableSchemaRequest(table_path=path, schema_id=schema_id)
                schemas[schema_id] = self._client.coordinator(request).schema_json
        if self._client.coordinator(fluss.GetTableInfoRequest(table_path=path)).table_id != table.table_id:
            raise SourceChanged(f"{table.path} was dropped and recreated", table_id=table.table_id)
        return schemas


def _has_columns(schema_json: bytes, table: TableInfo) -> bool:
    names = {column.name for column in parse_schema_json(schema_json).columns}
    return names.issuperset(table.schema.names)
