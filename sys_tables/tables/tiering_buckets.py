"""sys.tiering_buckets: the offsets of each bucket of each lake table, in log and lake."""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, SELECT_ON_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.buckets import BucketStatus


@system_table(
    "tiering_buckets",
    BucketStatus,
    requires=DESCRIBE_EACH_TABLE,
    further=((SELECT_ON_TABLE, "`stopped_at_record`"),),
    comment="The offsets of each bucket of each lake table, in log and lake.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[BucketStatus]:
    return view.buckets(scan.equals("database_name"), scan.equals("table_name"))
