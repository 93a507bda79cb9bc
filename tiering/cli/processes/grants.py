"""Opens the grants and the audit log of a service, from its command line."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tiering.access.acting_for import decide_impersonation, nobody_may
from tiering.access.audit import AuditTrail
from tiering.access.grants import Grants
from tiering.cli.terminal.access_options import AccessOptions, GrantOptions
from tiering.errors import InvalidArgument


def open_grants(settings: GrantOptions, access: AccessOptions, data: Path, stack: ExitStack) -> tuple[Grants, AuditTrail | None]:
    """Opens both and closes them with the stack.

    Raises InvalidArgument for a policy file with an error or without `--auth`, and SetupError for the audit log.
    """
    if settings.policy is not None and not access.authenticates:
        raise InvalidArgument(
            "--policy needs --auth. Without it, the service does not know its callers",
            hint="Add --auth token, mtls or oidc (docs/security.md).",
        )
    grants = Grants(settings.policy)
    decide_impersonation(grants.may_impersonate)
    stack.callback(decide_impersonation, nobody_may)
    if settings.audit_log is None and not access.authenticates:
        return grants, None
    trail = AuditTrail(settings.audit_log or data / "audit.jsonl")
    stack.callback(trail.close)
    return grants, trail
