"""The engine `duckdb` with a running service. It reads system tables from the service, and lake tables from the lake.

It starts no Spark. It reads each system table of a statement once, each at its own moment. It does not run procedures that change
something; `lakeward sql` without `--engine` runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields
from datetime import UTC, datetime

from sys_tables.catalog_client import SystemCatalog
from sys_tables.declare.system_table import SystemTable
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.offline.parsing import CallStatement, Statement, needs_spark, parse
from sys_tables.query.reading import StatementView, read_rows
from sys_tables.registry import default_registry
from tiering.cli.service_cluster import service_cluster
from tiering.cli.service_lake import service_lake
from tiering.cli.sql.engine import Result, errors_of_statements
from tiering.cli.sql.fresh_reads import reads_of_service
from tiering.client import LakewardClient
from tiering.cluster.base import TableCatalog
from tiering.errors import StatementFailed
from tiering.lake.registry import lake_opener
from tiering.model.status import TableStatus
from tiering.model.tables import TableInfo
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.wire.channel import Connection


class ServiceNames:
    """The current databases, tables and statuses of a service: a `NamesView`."""

    def __init__(self, cluster: TableCatalog, client: LakewardClient) -> None:
        self._cluster = cluster
        self._client = client
        self.now = datetime.now(UTC)

    def databases(self) -> Sequence[str]:
        """Returns the databases of the cluster."""
        return self._cluster.databases()

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        """Returns the tables of a database."""
        return self._cluster.tables(database_name)

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        """Returns the statuses of lake tables, of one database or one table if they are given."""
        statuses = self._client.list_tiering_statuses(database_name=database_name)
        return [status for status in statuses if table_name in (None, status.table_name)]


class ServiceDuckDbEngine:
    """Runs statements with a service. Raises ServiceUnreachable."""

    def __init__(self, uri: str) -> None:
        lake = service_lake(uri)
        with ExitStack() as opened:
            self._catalog = opened.enter_context(SystemCatalog(uri))
            self._cluster = opened.enter_context(service_cluster(uri))
            self._client = opened.enter_context(LakewardClient(uri))
            connection = opened.enter_context(Connection(uri))
            self._opened = opened.pop_all()
        open_lake = lake_opener(lake.properties)
        source = OfflineSource(
            read_view=self._read_view,
            open_lake=open_lake,
            open_read=reads_of_service(connection, self._cluster),
            lake_format=lake.format,
            validate=self._validate,
            start_command=None,
        )
        self._registry = default_registry()
        self._engine = OfflineEngine(source, self._registry)

    def execute(self, statement: str) -> Result:
        """Runs a statement, see `Engine.execute`."""
        with errors_of_statements():
            if (word := needs_spark(statement)) is not None:
                raise StatementFailed(
                    f"{word} cannot run with --engine duckdb, which changes nothing",
                    hint="Leave --engine out, and add --lake for tables in the catalog `lake`.",
                )
            parsed = parse(statement)
            self._refuse_changes(parsed)
            answer = self._engine.execute_parsed(parsed)
        return Result(answer.columns, answer.rows)

    def close(self) -> None:
        """Closes the connections."""
        self._opened.close()

    def _refuse_changes(self, statement: Statement) -> None:
        """Raises StatementFailed for a CALL that changes something."""
        if isinstance(statement, CallStatement) and self._registry.procedure(statement.name[-1]).mutates:
            raise StatementFailed(
                f"CALL {'.'.join(statement.name)} changes something, which --engine duckdb never does",
                hint="Leave --engine out. DuckDB runs queries on system and lake tables, SHOW, DESCRIBE and CALL sys.validate_table.",
            )

    def _read_view(self) -> StatementView:
        names = ServiceNames(self._cluster, self._client)
        return StatementView(names, lambda table, scan: read_rows(table, lambda: self._rows(table), names.now, scan))

    def _rows(self, table: SystemTable) -> Iterator[object]:
        names = table.schema.names
        for row in self._catalog.read(table.name):
            yield table.row_class(**{name: row[name] for name in names})

    def _validate(self, call: ValidateTable) -> Sequence[CheckResult]:
        rows = self._catalog.call("validate_table", table=str(call.path), level=call.level, snapshot_id=call.snapshot_id)
        return [CheckResult(**{field.name: row[field.name] for field in fields(CheckResult)}) for row in rows]
