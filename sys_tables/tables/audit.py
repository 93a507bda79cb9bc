"""sys.audit: calls with their caller, address, object and outcome, the newest first. For ADMIN alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import ADMIN_ON_SERVICE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column


@dataclass(frozen=True)
class AuditRow:
    """One line of the audit log."""

    call_id: str = column("Id of the call: the rows of its start and its end have the same id.")
    occurred_at: datetime = column("When the call started or ended.")
    principal: str = column("The caller, as the connection or the token proved; empty for a service without authentication.")
    authentication: str = column("How the caller was authenticated: token, mtls, oidc or none.")
    on_behalf_of: str | None = column("The user in whose name a caller with IMPERSONATE acted; NULL without one.")
    peer: str = column("Address of the connection.")
    action: str = column("The called object: sys.<procedure>, SELECT sys.<table>, or the RPC.")
    object: str | None = column("The object: a table, a database, a round or a lease. A refused CALL has its arguments here.")
    allowed: bool = column("Whether the policies allowed it.")
    outcome: str = column("STARTED, then ANSWERED, FAILED or GIVEN_UP by the caller; REFUSED.")
    error_class: str | None = column("Class of the error that ended the call.")
    message: str | None = column("Message of the error.")
    idempotency_key: str | None = column("The key that names the operation.")


@system_table(
    "audit",
    AuditRow,
    requires=ADMIN_ON_SERVICE,
    comment="Calls with their caller, address, object and outcome, the newest first. For ADMIN.",
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[AuditRow]:
    for entry in view.audit():
        yield AuditRow(**{**vars(entry), "occurred_at": datetime.fromisoformat(entry.occurred_at)})
