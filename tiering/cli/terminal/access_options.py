"""Options about access: how a service authenticates its callers, and what a client shows. Commands with `--uri` have the latter."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tiering.access.client_access import TLS_CA, TLS_CERT, TLS_KEY, TOKEN_FILE, ClientAccess

CONNECTION = "Token and TLS"
"""Title of the group of the client's options."""
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


AuthOption = Annotated[
    Auth | None,
    typer.Option(
        "--auth",
        help="How callers prove their identity. All values but none also accept the owner's token, which commands of the same user find. "
        "Default: token for `lakeward up`, none for `lakeward coordinator`.",
    ),
]
TokensOption = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        help="File with the tokens of the service. Default: access/tokens.json in the data folder.",
        rich_help_panel=_SERVER,
    ),
]
ServerCertOption = Annotated[
    Path | None,
    typer.Option(
        "--server-cert",
        metavar="FILE",
        help="PEM file with the service's certificate chain. It turns TLS on and needs --server-key.",
        rich_help_panel=_SERVER,
    ),
]
ServerKeyOption = Annotated[
    Path | None,
    typer.Option("--server-key", metavar="FILE", help="PEM file with the private key of --server-cert.", rich_help_panel=_SERVER),
]
ClientCaOption = Annotated[
    Path | None,
    typer.Option(
        "--client-ca",
        metavar="FILE",
        help="PEM file with the certificate authorities of client certificates. Every client then has to show a certificate (mTLS).",
        rich_help_panel=_SERVER,
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option(help="Allow an address other than loopback without TLS or --auth, also for the metrics pages.", rich_help_panel=_SERVER),
]
IssuerOption = Annotated[
    str | None, typer.Option("--oidc-issuer", metavar="URL", help="Issuer of the tokens, as in the claim `iss`.", rich_help_panel=_PROVIDER)
]
AudienceOption = Annotated[
    str | None,
    typer.Option("--oidc-audience", help="Audience of tokens for this service: their claim `aud`.", rich_help_panel=_PROVIDER),
]
JwksOption = Annotated[
    str | None,
    typer.Option(
        "--oidc-jwks", metavar="URL|FILE", help="Public keys of the issuer as a JWKS: an https URL or a file.", rich_help_panel=_PROVIDER
    ),
]
PrincipalClaimOption = Annotated[
    str, typer.Option("--oidc-principal", metavar="CLAIM", help="Claim that holds the principal.", rich_help_panel=_PROVIDER)
]
GroupsClaimOption = Annotated[
    str, typer.Option("--oidc-groups", metavar="CLAIM", help="Claim that holds the list of groups.", rich_help_panel=_PROVIDER)
]
AlgorithmOption = Annotated[
    list[str] | None,
    typer.Option(
        "--oidc-algorithm",
        metavar="NAME",
        help="Signature algorithm that the service accepts. Can be repeated. Default: RS256 and ES256.",
        rich_help_panel=_PROVIDER,
    ),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Cedar policies that say who may do what (docs/grants.md). The service reads the file again when it changes. "
        "Default: every caller that the service knows may do everything.",
        rich_help_panel=_GRANTS,
    ),
]
AuditLogOption = Annotated[
    Path | None,
    typer.Option(
        "--audit-log",
        metavar="FILE",
        help="File for the audit log: who did what, one JSON object per line. Default: audit.jsonl in the data folder; no audit log with "
        "--auth none.",
        rich_help_panel=_GRANTS,
    ),
]

_CLIENT_OPTIONS = {
    "token_file": Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            envvar=TOKEN_FILE,
            help="File with the token that the command shows. Default: the token of the service that the same user runs.",
            rich_help_panel=CONNECTION,
        ),
    ],
    "tls_ca": Annotated[
        Path | None,
        typer.Option(
            "--tls-ca",
            metavar="FILE",
            envvar=TLS_CA,
            help="PEM file with the certificate authorities that the command trusts. It turns TLS on.",
            rich_help_panel=CONNECTION,
        ),
    ],
    "tls_cert": Annotated[
        Path | None,
        typer.Option(
            "--tls-cert",
            metavar="FILE",
            envvar=TLS_CERT,
            help="PEM file with the command's own certificate, for mTLS.",
            rich_help_panel=CONNECTION,
        ),
    ],
    "tls_key": Annotated[
        Path | None,
        typer.Option(
            "--tls-key", metavar="FILE", envvar=TLS_KEY, help="PEM file with the private key of --tls-cert.", rich_help_panel=CONNECTION
        ),
    ],
}


def add_client_options(app: typer.Typer) -> None:
    """Gives each command with the parameter `uri` the options of the connection.

    The options reach connections as environment variables, so that child processes inherit them.
    """
    for info in app.registered_commands:
        if info.callback is not None and "uri" in inspect.signature(info.callback).parameters:
            info.callback = _with_client_options(info.callback)


def _with_client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        access = ClientAccess(**{name: arguments.pop(name) for name in _CLIENT_OPTIONS})
        os.environ.update(access.environment)
        return command(**arguments)

    hints = inspect.signature(command, eval_str=True).parameters
    parameters = [*hints.values()]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=option)
        for name, option in _CLIENT_OPTIONS.items()
    ]
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads this attribute first
    return run
