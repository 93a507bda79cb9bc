"""Creates the authenticator, the grants and the audit log of a service from the options of the command line."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from tiering.access.acting_for import decide_impersonation, nobody_may
from tiering.access.audit import AuditTrail
from tiering.access.authentication import Authenticator, CertificateAuthenticator, OwnerToken, TokenAuthenticator
from tiering.access.client_access import TLS_CA, TLS_CERT, TLS_KEY, TOKEN_FILE, access_from_environment, forget_user_token, keep_user_token
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity
from tiering.access.loopback import stays_on_this_machine
from tiering.access.tokens import TokenFile, new_token, users_with_tokens, write_private
from tiering.cli.commands.token import ACCESS_FOLDER, tokens_path
from tiering.cli.terminal.access_options import AccessOptions, Auth, GrantOptions
from tiering.errors import InvalidArgument, SetupError
from tiering.wire.channel import host_and_port
from tiering.wire.security.server_tls import certificate_names

OWNER_TOKEN_FILE = "owner.token"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ServiceAccess:
    """The access control of a running service. `authenticator` None: callers do not authenticate."""

    authenticator: Authenticator | None = None
    owner_token: str | None = None
    data: Path | None = None

    @contextmanager
    def found_by_its_owner(self, target: str) -> Iterator[None]:
        """Keeps the owner's token where the owner's clients find it, while the service at `host:port` serves. Warns if that fails."""
        if self.owner_token is None:
            yield
            return
        paths: list[Path] = []
        try:
            paths = keep_user_token(target, self.owner_token)
        except SetupError as error:
            where = "" if self.data is None else str(owner_token_path(self.data))
            log.warning("clients of this user must name the token's file", reason=error.message, token_file=where)
        try:
            yield
        finally:
            forget_user_token(paths, self.owner_token)


def owner_token_path(data: Path) -> Path:
    """Returns the path of the owner's token in the data folder."""
    return data / ACCESS_FOLDER / OWNER_TOKEN_FILE


def open_access(settings: AccessOptions, data: Path) -> ServiceAccess:
    """Creates the owner's token and the authenticator. Raises SetupError for files that cannot be read or written.

    Each start creates another token. A program that received the token on the port of an ended service cannot use it.
    """
    if not settings.authenticates:
        return ServiceAccess()
    others = _authenticator(settings, data)
    owner = Identity(_user_name(), Authentication.TOKEN, is_owner=True)
    token, _ = new_token(owner.principal, datetime.now(UTC))
    path = owner_token_path(data)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_private(path, token + "\n")
    return ServiceAccess(OwnerToken(token, owner, others), token, data)


def _authenticator(settings: AccessOptions, data: Path) -> Authenticator:
    """Returns the authenticator of all callers except the owner."""
    if settings.auth is Auth.MTLS:
        return CertificateAuthenticator()
    if settings.oidc is not None:
        from tiering.access.oidc import OidcAuthenticator

        provider = OidcAuthenticator(settings.oidc)
        provider.check()
        return provider
    file = TokenFile(tokens_path(data, settings.tokens))
    file.check()
    return TokenAuthenticator(file)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"


def check_tierer_access(settings: AccessOptions, host: str) -> None:
    """Raises SetupError if the tierer of `lakeward up` could not connect to the service, which listens on `host`."""
    shown = access_from_environment()
    if settings.authenticates and settings.tls is None and not shown.is_encrypted and not stays_on_this_machine(host):
        raise SetupError(
            f"the tierer of `lakeward up` does not send its token to {host} in clear text",
            hint="Start with --server-cert and --server-key, with --host 127.0.0.1, or with --auth none.",
        )
    if settings.tls is not None and settings.tls.client_ca is not None and (shown.tls_cert is None or shown.tls_key is None):
        raise SetupError(
            "with --client-ca, the tierer of `lakeward up` needs a certificate, too",
            hint=f"Set {TLS_CERT} and {TLS_KEY} to the paths of a certificate and its key.",
        )


def tierer_access(settings: AccessOptions, data: Path) -> dict[str, str]:
    """Returns the environment variables of the tierer of `lakeward up`: it shows the owner's token and trusts the service's certificate."""
    shown = {} if not settings.authenticates else {TOKEN_FILE: str(owner_token_path(data))}
    if settings.tls is not None and access_from_environment().tls_ca is None:
        shown[TLS_CA] = str(settings.tls.certificate.expanduser().resolve())
    return shown


def tierer_uri(settings: AccessOptions, uri: str) -> str:
    """Returns the uri at which the tierer of `lakeward up` connects: with TLS, under a name of the certificate."""
    if settings.tls is None:
        return uri
    names = certificate_names(settings.tls)
    host, _, port = uri.rpartition(":")
    on_this_machine = [name for name in (host.strip("[]"), "127.0.0.1", "localhost", "::1") if name in names]
    name = next(iter([*on_this_machine, *names]), host)
    return host_and_port(name, int(port))


def open_grants(settings: GrantOptions, access: AccessOptions, data: Path, stack: ExitStack) -> tuple[Grants, AuditTrail | None]:
    """Opens both and closes them with the stack.

    Raises InvalidArgument for a policy file with an error or without `--auth`, and SetupError for the audit log.
    """
    if settings.policy is not None and not access.authenticates:
        raise InvalidArgument(
            "--policy needs --auth. Without it, the service does not know its callers",
            hint="Add --auth token, mtls or oidc (docs/security.md).",
        )
    has_tokens, tokens = access.auth is Auth.TOKEN, tokens_path(data, access.tokens)
    grants = Grants(settings.policy, users=lambda: users_with_tokens(tokens, datetime.now(UTC)) if has_tokens else ())
    decide_impersonation(grants.may_impersonate)
    stack.callback(decide_impersonation, nobody_may)
    if settings.audit_log is None and not access.authenticates:
        return grants, None
    trail = AuditTrail(settings.audit_log or data / "audit.jsonl")
    stack.callback(trail.close)
    return grants, trail
