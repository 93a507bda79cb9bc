"""Options about who may call: what a service asks for, and what a client shows. `--uri` brings the client's with it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tiering.access.client_access import TLS_CA, TLS_CERT, TLS_KEY, TOKEN_FILE, ClientAccess

_SHOWN = "Of the connection"
_SERVER = "TLS and identity"


class Auth(StrEnum):
    """How a service learns who calls."""

    TOKEN = "token"
    MTLS = "mtls"
    OIDC = "oidc"
    NONE = "none"


AuthOption = Annotated[
    Auth | None,
    typer.Option(
        "--auth",
        help="How callers prove who they are; the owner's token, which commands find, is taken by all but none. `up`: token, else none.",
        rich_help_panel=_SERVER,
    ),
]
TokensOption = Annotated[
    Path | None,
    typer.Option("--tokens", help="The file of tokens; access/tokens.json in the data folder.", rich_help_panel=_SERVER),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy", help="Cedar policies of who may do what (docs/grants.md); read again when they change. Default: everybody all."
    ),
]
AuditLogOption = Annotated[
    Path | None,
    typer.Option("--audit-log", help="Who did what, as JSON lines. Default: audit.jsonl in the data folder, and none with --auth none."),
]

_FROM_PROVIDER = "JWTs of an identity provider (--auth oidc)"
ServerCertOption = Annotated[
    Path | None, typer.Option("--server-cert", help="PEM: the service's certificate chain; with it TLS is spoken.", rich_help_panel=_SERVER)
]
ServerKeyOption = Annotated[Path | None, typer.Option("--server-key", help="PEM: the key of that certificate.", rich_help_panel=_SERVER)]
ClientCaOption = Annotated[
    Path | None,
    typer.Option("--client-ca", help="PEM: who may vouch for clients; with it all of them show a certificate.", rich_help_panel=_SERVER),
]
IssuerOption = Annotated[str | None, typer.Option("--oidc-issuer", help="The `iss` of its tokens.", rich_help_panel=_FROM_PROVIDER)]
AudienceOption = Annotated[
    str | None, typer.Option("--oidc-audience", help="The `aud` that tokens for this service have.", rich_help_panel=_FROM_PROVIDER)
]
JwksOption = Annotated[
    str | None, typer.Option("--oidc-jwks", help="Its public keys, a JWKS: an https URL or a file.", rich_help_panel=_FROM_PROVIDER)
]
PrincipalClaimOption = Annotated[
    str, typer.Option("--oidc-principal", help="The claim with the principal.", rich_help_panel=_FROM_PROVIDER)
]
GroupsClaimOption = Annotated[str, typer.Option("--oidc-groups", help="The claim with the list of groups.", rich_help_panel=_FROM_PROVIDER)]
AlgorithmOption = Annotated[
    list[str] | None,
    typer.Option("--oidc-algorithm", help="A signature that counts; repeat it. Default: RS256 and ES256.", rich_help_panel=_FROM_PROVIDER),
]

_CLIENT_OPTIONS = {
    "token_file": Annotated[
        Path | None,
        typer.Option(
            "--token-file", envvar=TOKEN_FILE, help="A file with the token to show; the user's own is found.", rich_help_panel=_SHOWN
        ),
    ],
    "tls_ca": Annotated[
        Path | None,
        typer.Option("--tls-ca", envvar=TLS_CA, help="PEM: who may vouch for the service; with it TLS is spoken.", rich_help_panel=_SHOWN),
    ],
    "tls_cert": Annotated[
        Path | None,
        typer.Option("--tls-cert", envvar=TLS_CERT, help="PEM: the client's own certificate, for mTLS.", rich_help_panel=_SHOWN),
    ],
    "tls_key": Annotated[
        Path | None, typer.Option("--tls-key", envvar=TLS_KEY, help="PEM: the key of that certificate.", rich_help_panel=_SHOWN)
    ],
}


def add_client_options(app: typer.Typer) -> None:
    """Gives every command that names a service the options of the connection to it.

    They reach connections as environment variables do, so that a child process has them, too.
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
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer asks first
    return run
