"""Opens the grants and the audit log of a service, from its command line."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tiering.access.acting_for import decide_impersonation, nobody_may
from tiering.access.audit import AuditTrail
from tiering.access.grants import Grants
from tiering.cli.processes.service_access import AccessSettings
from tiering.cli.terminal.access_options import Auth
from tiering.errors import InvalidArgument


@dataclass(frozen=True)
class GrantSettings:
    """Settings of grants and audit.

    `policy` None: every known caller may do everything. `audit_log` None: `audit.jsonl` in the data folder, if callers authenticate.
    """

    policy: Path | None = None
    audit_log: Path | None = None


def open_grants(settings: GrantSettings, access: AccessSettings, data: Path, stack: ExitStack) -> tuple[Grants, AuditTrail | None]:
    """Opens both and closes them with the stack.

    Raises InvalidArgument for a policy file with an error or without `--auth`, and SetupError for the audit log.
    """
    if settings.policy is not None and access.auth is Auth.NONE:
        raise InvalidArgument(
            "--policy needs --auth. Without it, the service does not know its callers",
            hint="Add --auth token, mtls or oidc (docs/security.md).",
        )
    grants = Grants(settings.policy)
    decide_impersonation(grants.may_impersonate)
    stack.callback(decide_impersonation, nobody_may)
    if settings.audit_log is None and access.auth is Auth.NONE:
        return grants, None
    trail = AuditTrail(settings.audit_log or data / "audit.jsonl")
    stack.callback(trail.close)
    return grants, trail
