"""One read of a system table: its rows, filtered, limited and pruned, as Arrow pieces."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sys_tables.arrow_stream import arrow_pieces
from sys_tables.definitions import SystemTable
from sys_tables.lookup import near_hint
from sys_tables.scan import ScanRequest, select
from tiering.coordinator.api import CoordinatorView
from tiering.errors import InvalidArgument

OBSERVED_TIME_KEY = "observed_time"
"""Metadata of the stream's schema: the moment that the rows show, ISO 8601, UTC."""


def read_table(table: SystemTable, view: CoordinatorView, scan: ScanRequest) -> Iterator[bytes]:
    """The pieces, made as they are drawn; columns in the order asked, all of them if none is.

    Raises InvalidArgument, at the first piece, for a column, filter or limit that the table cannot have.
    """
    for name in scan.columns:
        if name not in table.schema.names:
            raise InvalidArgument(f"sys.{table.name} has no column {name!r}", hint=near_hint(name, table.schema.names, "columns"))
    asked = pa.schema(
        [table.schema.field(name) for name in scan.columns or table.schema.names],
        metadata={OBSERVED_TIME_KEY: view.now.isoformat()},
    )
    yield from arrow_pieces(select(table.rows(view, scan), table.schema, scan), asked)
