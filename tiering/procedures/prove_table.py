"""`CALL sys.prove_table`: a signed proof that a lake table equals its log, as an archive that can be handed over."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.access.privileges import Privilege
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import VALIDATION_SECONDS, CallRequest


@dataclass(frozen=True)
class ProveTableResult:
    """The proof, and what it says."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    lake_snapshot_id: int | None = column("The lake snapshot that was proved.")
    verdict: str = column("equal; partly: no difference, but not all rows could be compared; differs.")
    details: str | None = column("The first difference, or why not all rows could be compared.")
    files: int = column("Number of lake files.")
    rows: int | None = column("Number of rows in the lake files; NULL if a check before found that they cannot be read.")
    fingerprint: str = column("Fingerprint of the key of this service, which signed the proof.")
    archive_sha256: str = column("SHA-256 of the archive, in hexadecimal digits.")
    archive_bytes: int = column("Size of the archive.")
    archive: str = column("The archive, a ZIP file, as text in base64.")


@dataclass(frozen=True)
class ProveTable(CallRequest[ProveTableResult]):
    """The table to prove. `snapshot_id` None: the newest lake snapshot."""

    procedure = "prove_table"
    comment = "Proves that a lake table equals its log, and returns the signed proof as an archive."
    requirement = Requirement(Privilege.SELECT, PrivilegeTarget.TABLE, audited=True)
    answer_seconds = VALIDATION_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    snapshot_id: int | None = parameter("A lake snapshot; the newest if not given.", default=None)
    spark: bool = parameter("Whether Spark counts the rows, too, if it is installed where the service runs.", default=True)
