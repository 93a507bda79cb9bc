"""sys.tiering_splits: the splits of running rounds, with their progress.

A tierer reports the splits of its running rounds, best effort. The rows disappear with the round.
"""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.splits import SplitStatus


@system_table(
    "tiering_splits",
    SplitStatus,
    requires=DESCRIBE_EACH_TABLE,
    comment="The splits of running rounds, with their progress.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[SplitStatus]:
    return view.splits(scan.equals("database_name"), scan.equals("table_name"), scan.equals("round_id"))
