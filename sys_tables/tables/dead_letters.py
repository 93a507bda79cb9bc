"""sys.dead_letters: the records that rounds put aside, because the lake cannot hold them."""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, SELECT_ON_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.refused_records import DeadLetterRow


@system_table(
    "dead_letters",
    DeadLetterRow,
    requires=DESCRIBE_EACH_TABLE,
    further=((SELECT_ON_TABLE, "`record`"),),
    comment="Records that rounds put aside, because the lake cannot hold them (option table.datalake.on-bad-record).",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[DeadLetterRow]:
    return view.dead_letters(scan.equals("database_name"), scan.equals("table_name"))
