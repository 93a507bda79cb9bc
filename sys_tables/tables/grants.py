"""sys.grants: the policies in force, and the errors of a policy file that is not in force. For ADMIN alone: policies name tables."""

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
class GrantRow:
    """One policy."""

    policy_id: str = column("The @id of the policy, or else its number in the file.")
    effect: str = column("Effect of the policy: permit or forbid; error in a row that says why the present file is not in force.")
    principal: str = column("The user or group in the scope of the policy, or * for every user.")
    privileges: str = column("The privileges in the scope of the policy, or * for all.")
    resource: str = column("The objects in the scope of the policy: tables, a database, the service, or * for all.")
    policy_text: str = column("The policy in Cedar's words; in the row of an error, the error.")
    loaded_at: datetime | None = column("Time since which the policies are in force.")


@system_table(
    "grants",
    GrantRow,
    requires=ADMIN_ON_SERVICE,
    comment="The policies in force, in the order of their file; first the errors of the file. For ADMIN.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[GrantRow]:
    state = view.policies()
    if state.problem is not None:
        yield GrantRow("file", "error", "*", "*", "*", state.problem, state.loaded_at)
    for statement in state.statements:
        yield GrantRow(
            policy_id=statement.policy_id,
            effect=statement.effect,
            principal=statement.principal,
            privileges=statement.privileges,
            resource=statement.resource,
            policy_text=statement.text,
            loaded_at=state.loaded_at,
        )
