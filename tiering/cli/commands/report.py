"""`lakeward report`: writes one HTML page about a table, with pictures, that needs no other file and no network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sys_tables.catalog_client import SystemCatalog
from tiering.cli.terminal.new_file import ForceOption, write_new_file
from tiering.cli.terminal.options import DEFAULT_URI, TableArgument, UriOption
from tiering.client import LakewardClient
from tiering.model.names import parse_table_path

READ_ROUNDS, READ_COMMITS, READ_PROOFS = 500, 20, 20


def report(
    table: TableArgument,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="File to write.")],
    uri: UriOption = DEFAULT_URI,
    force: ForceOption = False,
) -> None:
    """Write one HTML page about a table: its promise, its rounds, its errors, its checks and its last proofs, with pictures.

    Example: lakeward report sales.orders --html orders.html
    """
    from tiering.cli.report.table_report import TableHistory, table_report

    path = parse_table_path(table)
    with LakewardClient(uri) as client, SystemCatalog(uri) as catalog:
        [status] = client.list_tiering_statuses(table_path=path)

        def rows(name: str, **more: Any) -> list[dict[str, Any]]:
            return catalog.read(name, database_name=path.database_name, table_name=path.table_name, **more)

        def own(name: str, **more: Any) -> list[dict[str, Any]]:
            return [row for row in rows(name, **more) if row["table_id"] == status.table_id]

        history = TableHistory(
            rounds=own("tiering_rounds", newest_by="pending_time", limit=READ_ROUNDS),
            buckets=rows("tiering_buckets"),
            errors=rows("tiering_errors", newest_by="last_seen"),
            commits=own("lake_commits", newest_by="prepared_at", limit=READ_COMMITS),
            health=rows("lake_table_health"),
            checks=rows("validation_results"),
            proofs=rows("table_proofs", newest_by="proved_at", limit=READ_PROOFS),
        )
    page = table_report(status, history).encode()
    write_new_file(html, lambda sink: sink.write(page), force=force)
    print(f"{html}: the report about {path}, {len(page):,} bytes")
