"""Who may call the service that starts here: what `--auth` and its other options say, as an authenticator."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from tiering.access.authentication import Authenticator, OwnersToken, TokenAuthenticator
from tiering.access.client_access import forget_user_token, keep_user_token
from tiering.access.identity import Authentication, Identity
from tiering.access.tokens import TokenFile, new_token, write_private
from tiering.cli.commands.token import ACCESS_FOLDER, tokens_path
from tiering.cli.terminal.access_options import Auth
from tiering.errors import SetupError

OWNER_TOKEN_FILE = "owner.token"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AccessSettings:
    """What the command line says. `tokens` None = the file in the data folder."""

    auth: Auth = Auth.NONE
    tokens: Path | None = None


@dataclass(frozen=True)
class ServiceAccess:
    """`authenticator` None = nobody is asked who they are."""

    authenticator: Authenticator | None = None
    owner_token: str | None = None
    data: Path | None = None

    @contextmanager
    def found_by_its_owner(self, target: str) -> Iterator[None]:
        """While the service at `host:port` serves, its owner's clients find the token. A folder that cannot be written is told of."""
        if self.owner_token is None:
            yield
            return
        path = None
        try:
            path = keep_user_token(target, self.owner_token)
        except SetupError as error:
            where = "" if self.data is None else str(owner_token_path(self.data))
            log.warning("clients of this user must name the token's file", reason=error.message, token_file=where)
        try:
            yield
        finally:
            if path is not None:
                forget_user_token(path, self.owner_token)


def owner_token_path(data: Path) -> Path:
    """Where the token of the service's owner is, in the data folder."""
    return data / ACCESS_FOLDER / OWNER_TOKEN_FILE


def open_access(settings: AccessSettings, data: Path) -> ServiceAccess:
    """Makes the owner's token, anew with each start: one that somebody caught on the port of a service that had ended is worth nothing.

    Raises SetupError for files that cannot be read or written.
    """
    if settings.auth is Auth.NONE:
        return ServiceAccess()
    file = TokenFile(tokens_path(data, settings.tokens))
    file.check()
    owner = Identity(_user_name(), Authentication.TOKEN, is_owner=True)
    token, _ = new_token(owner.principal, datetime.now(UTC))
    path = owner_token_path(data)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_private(path, token + "\n")
    return ServiceAccess(OwnersToken(token, owner, TokenAuthenticator(file)), token, data)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"
