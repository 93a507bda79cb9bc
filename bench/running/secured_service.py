"""A coordinator behind TLS, tokens and policies, and what a client shows it.

`sys_query.py --secured` and `access/heartbeat.py` compare it with a plain one. Import `running.tests_path` before: what the tests share
makes the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from support.services.certificates import Authority
from tiering.access.client_access import ClientAccess
from tiering.access.tokens import add_token, new_token

USER = "bench"
POLICIES = f"""
permit (principal == User::"{USER}", action in Action::"read", resource is Table)
  when {{ resource.database like "idle*" || resource.database like "rare*" }};
permit (principal == User::"{USER}", action == Action::"TIERER", resource == Service::"lakeward");
permit (principal == User::"reader", action in Action::"read", resource is Table) when {{ resource.name like "*_daily" }};
forbid (principal, action, resource == Table::"hr.salaries");
"""
"""Filters by patterns that all tables of the benches pass: the answers are the same, and each has to be worked out."""


@dataclass(frozen=True)
class SecuredService:
    """Options of a coordinator, and what its client names."""

    options: tuple[str, ...]
    access: ClientAccess

    @property
    def spark(self) -> dict[str, str]:
        """Further properties of the catalog `fluss`."""
        prefix = "spark.sql.catalog.fluss."
        return {prefix + "token-file": str(self.access.token_file), prefix + "tls.ca": str(self.access.tls_ca)}


def secured_service(folder: Path) -> SecuredService:
    """Makes certificate, token and policies in the folder."""
    authority, tokens, token_file, policy = Authority(folder), folder / "tokens.json", folder / "token", folder / "policies.cedar"
    tls = authority.server()
    token, stored = new_token(USER, datetime.now(UTC))
    add_token(tokens, stored)
    token_file.write_text(token + "\n")
    policy.write_text(POLICIES)
    files = {"--server-cert": tls.certificate, "--server-key": tls.key, "--tokens": tokens, "--policy": policy}
    options = ("--auth", "token", *(part for option, file in files.items() for part in (option, str(file))))
    return SecuredService(options, ClientAccess(token_file, authority.certificate))


def overhead(plain_ms: float, secured_ms: float) -> float:
    """Overhead in percent of the plain service."""
    return (secured_ms / plain_ms - 1) * 100
