"""`CALL sys.prove_table`: a signed proof that a lake table equals its log, as an archive that can be handed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tiering.access.privileges import Privilege
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import VALIDATION_SECONDS, CallRequest


@dataclass(frozen=True)
class ReaderRows:
    """The number of rows that one reader counted."""

    reader: str = column("Name of the reader, for example pyiceberg.")
    version: str | None = column("Version of the reader; NULL if it did not count.")
    rows: int | None = column("Number of rows that the reader counted; NULL if it did not count.")
    note: str | None = column("How the reader read the table, or why it did not count; NULL for a caller without SELECT.")


def counts_text(readers: Iterable[Mapping[str, Any]]) -> str:
    """Returns what readers counted as one line, for example `DuckDB 2.0.0: 4`. A reader is a mapping with the fields of ReaderRows."""
    return ", ".join(
        f"{reader['reader']}: not counted" if reader["rows"] is None else f"{reader['reader']} {reader['version']}: {reader['rows']}"
        for reader in readers
    )


@dataclass(frozen=True)
class ProveTableResult:
    """The proof, and what it says."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    lake_snapshot_id: int | None = column("The lake snapshot that was proved.")
    verdict: str = column("equal; partly: no difference, but not all rows could be compared; differs.")
    details: str | None = column("The first difference, or why not all rows could be compared.")
    files: int = column("Number of lake files.")
    rows: int | None = column("Number of rows in the lake files; NULL if a check before found that they cannot be read.")
    readers: tuple[ReaderRows, ...] = column("The number of rows that each reader counted.")
    fingerprint: str = column("Fingerprint of the key of this service, which signed the proof.")
    archive_sha256: str = column("SHA-256 of the archive, in hexadecimal digits.")
    archive_bytes: int = column("Size of the archive.")
    archive: str = column("The archive, a ZIP file, as text in base64.")


@dataclass(frozen=True)
class TableProof:
    """One proof of one table, as the service keeps it. The archive itself is only in the answer of the call."""

    proved_at: datetime = column("When the proof began.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    principal: str = column("The user who asked for the proof.")
    lake_snapshot_id: int | None = column("The lake snapshot that was proved.")
    verdict: str = column("equal; partly: no difference, but not all rows could be compared; differs.")
    details: str | None = column("The first difference, or why not all rows could be compared; NULL for a caller without SELECT.")
    rows: int | None = column("Number of rows in the lake files; NULL if a check before found that they cannot be read.")
    readers: tuple[ReaderRows, ...] = column("The number of rows that each reader counted.")
    files: int = column("Number of lake files.")
    fingerprint: str = column("Fingerprint of the key of the service, which signed the proof.")
    archive_sha256: str = column("SHA-256 of the archive, in hexadecimal digits. It identifies the archive that the caller got.")
    archive_bytes: int = column("Size of the archive.")
    duration_ms: int = column("How long the proof took, in milliseconds.")

    def to_plain(self) -> dict[str, Any]:
        """Returns the proof in the form that JSON has."""
        return {**asdict(self), "proved_at": self.proved_at.isoformat()}

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> TableProof:
        """Returns the proof from the form that `to_plain` returns."""
        readers = tuple(ReaderRows(**reader) for reader in values["readers"])
        return TableProof(**{**values, "proved_at": datetime.fromisoformat(values["proved_at"]), "readers": readers})


@dataclass(frozen=True)
class ProveTable(CallRequest[ProveTableResult]):
    """The table to prove. `snapshot_id` None: the newest lake snapshot."""

    procedure = "prove_table"
    comment = "Proves that a lake table equals its log, and returns the signed proof as an archive."
    requirement = Requirement(Privilege.SELECT, PrivilegeTarget.TABLE, audited=True)
    answer_seconds = VALIDATION_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    snapshot_id: int | None = parameter("A lake snapshot; the newest if not given.", default=None)
    spark: bool | None = parameter(
        "Whether Spark counts the rows, too, if it is installed where the service runs. If not given, it counts those of tables whose lake "
        "files have at most 1 GiB.",
        default=None,
    )
