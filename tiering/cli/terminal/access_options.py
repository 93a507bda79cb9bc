"""Options about access: how a service authenticates its callers, and what a client shows. Commands with `--uri` have the latter."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiering.access.client_access import TLS_CA, TLS_CERT, TLS_KEY, TOKEN_FILE, ClientAccess
from tiering.access.oidc_settings import OidcSettings
from tiering.cli.terminal.option_groups import as_command, built, parameters_of
from tiering.errors import InvalidArgument
from tiering.model.option import option

if TYPE_CHECKING:
    from tiering.wire.security.server_tls import ServerTls

CONNECTION_SUMMARY = (
    "The token and the certificates for a service that asks for them (docs/security.md). "
    f"The environment variables {TOKEN_FILE}, {TLS_CA}, {TLS_CERT} and {TLS_KEY} do the same."
)
"""The text of help pages about all options of the group, which more than thirty commands have."""

_SERVER = "TLS and identity"
_PROVIDER = "Tokens of an identity provider (--auth oidc)"
_GRANTS = "Grants and audit"


class Auth(StrEnum):
    """How a service authenticates its callers."""

    TOKEN = "token"
    MTLS = "mtls"
    OIDC = "oidc"
    NONE = "none"


_TOKENS_MEANING = "File with the tokens of the service. Default: access/tokens.json in the data folder."
TokensOption = Annotated[Path | None, typer.Option("--tokens", metavar="FILE", help=_TOKENS_MEANING, rich_help_panel=_SERVER)]


@dataclass(frozen=True)
class AccessOptions:
    """How a service authenticates its callers. `auth` None: callers do not authenticate, unless the command has another default."""

    # fmt: off
    auth: Auth | None = option(
        None,
        "How callers prove their identity. All values but none also accept the owner's token, which commands of the same user find. "
        "Default: token for `lakeward up`, none for `lakeward coordinator`.",
        flag="--auth",
    )
    server_cert: Path | None = option(
        None, "PEM file with the service's certificate chain. It turns TLS on and needs --server-key.",
        flag="--server-cert", unit="FILE", group=_SERVER,
    )
    server_key: Path | None = option(
        None, "PEM file with the private key of --server-cert.", flag="--server-key", unit="FILE", group=_SERVER
    )
    client_ca: Path | None = option(
        None,
        "PEM file with the certificate authorities of client certificates. Every client then has to show a certificate (mTLS).",
        flag="--client-ca", unit="FILE", group=_SERVER,
    )
    tokens: TokensOption = None
    insecure: bool = option(
        False, "Allow an address other than loopback without TLS or --auth, also for the metrics pages.",
        flag="--insecure/--no-insecure", group=_SERVER,
    )
    oidc_issuer: str | None = option(
        None, "Issuer of the tokens, as in the claim `iss`.", flag="--oidc-issuer", unit="URL", group=_PROVIDER
    )
    oidc_audience: str | None = option(
        None, "Audience of tokens for this service: their claim `aud`.", flag="--oidc-audience", group=_PROVIDER
    )
    oidc_jwks: str | None = option(
        None, "Public keys of the issuer as a JWKS: an https URL or a file.", flag="--oidc-jwks", unit="URL|FILE", group=_PROVIDER
    )
    oidc_principal: str = option(
        OidcSettings.principal, "Claim that holds the principal.", flag="--oidc-principal", unit="CLAIM", group=_PROVIDER
    )
    oidc_groups: str = option(
        OidcSettings.groups, "Claim that holds the list of groups.", flag="--oidc-groups", unit="CLAIM", group=_PROVIDER
    )
    oidc_algorithm: list[str] | None = option(
        None, "Signature algorithm that the service accepts. Can be repeated. Default: RS256 and ES256.",
        flag="--oidc-algorithm", unit="NAME", group=_PROVIDER,
    )
    # fmt: on

    def check(self) -> None:
        """Raises InvalidArgument for an option without another one that it needs."""
        _ = self.tls, self.oidc

    @property
    def authenticates(self) -> bool:
        """Whether callers have to prove their identity."""
        return self.auth not in (None, Auth.NONE)

    @property
    def is_protected(self) -> bool:
        """Whether other machines may connect: connections are encrypted, and callers authenticate."""
        return self.authenticates and self.tls is not None

    @property
    def tls(self) -> ServerTls | None:
        """The files of TLS, or None without TLS. Raises InvalidArgument for an option without another one that it needs."""
        if self.server_cert is None or self.server_key is None:
            if (self.server_cert, self.server_key, self.client_ca) != (None, None, None):
                raise InvalidArgument("TLS needs --server-cert and --server-key", hint="Name both files.")
            if self.auth is Auth.MTLS:
                raise InvalidArgument("mTLS needs TLS", hint="Name --server-cert, --server-key and --client-ca.")
            return None
        if self.auth is Auth.MTLS and self.client_ca is None:
            raise InvalidArgument("mTLS needs --client-ca", hint="Name the file with the certificate authorities of client certificates.")
        from tiering.wire.security.server_tls import ServerTls  # other commands and help pages do not need it, and would start later

        return ServerTls(self.server_cert, self.server_key, self.client_ca)

    @property
    def oidc(self) -> OidcSettings | None:
        """The settings of the identity provider, or None without one. Raises InvalidArgument if one is missing."""
        if self.auth is not Auth.OIDC:
            return None
        if not (self.oidc_issuer and self.oidc_audience and self.oidc_jwks):
            raise InvalidArgument("OIDC needs --oidc-issuer, --oidc-audience and --oidc-jwks", hint="Name all three.")
        algorithms = self.oidc_algorithm or OidcSettings.algorithms
        return OidcSettings(self.oidc_issuer, self.oidc_audience, self.oidc_jwks, self.oidc_principal, self.oidc_groups, tuple(algorithms))


@dataclass(frozen=True)
class GrantOptions:
    """Options of access rights, and of the log of calls."""

    # fmt: off
    policy: Path | None = option(
        None,
        "Cedar policies that say who may do what (docs/grants.md). The service reads the file again when it changes. "
        "Default: every caller that the service knows may do everything.",
        flag="--policy", unit="FILE", group=_GRANTS,
    )
    audit_log: Path | None = option(
        None,
        "File for the audit log: who did what, one JSON object per line. Default: audit.jsonl in the data folder; no audit log with "
        "--auth none.",
        flag="--audit-log", unit="FILE", group=_GRANTS,
    )
    # fmt: on


def add_client_options(app: typer.Typer) -> None:
    """Gives each command with the parameter `uri` the options of the connection.

    The options reach connections as environment variables, so that child processes inherit them.
    """
    for info in app.registered_commands:
        if info.callback is not None and "uri" in inspect.signature(info.callback).parameters:
            info.callback = _with_client_options(info.callback)


def _with_client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        os.environ.update(built(ClientAccess, arguments).environment)
        return command(**arguments)

    return as_command(run, command, [*inspect.signature(command, eval_str=True).parameters.values(), *parameters_of(ClientAccess)])
