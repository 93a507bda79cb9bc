"""sys.table_proofs: the proofs of tables, the newest first. A proof's archive is only in the answer of `CALL sys.prove_table`."""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, SELECT_ON_TABLE
from tiering.coordinator.interface import CoordinatorView, TableProof


@system_table(
    "table_proofs",
    TableProof,
    requires=DESCRIBE_EACH_TABLE,
    further=((SELECT_ON_TABLE, "`details`, `readers.note`"),),
    comment="The signed proofs of tables, the newest first.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TableProof]:
    database_name, table_name = scan.equals("database_name"), scan.equals("table_name")
    for proof in view.proofs():
        if database_name in (None, proof.database_name) and table_name in (None, proof.table_name):
            yield proof
