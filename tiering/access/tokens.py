"""Tokens of a service: their form, and the file that stores their hashes.

A token is `lw_<id>_<secret>`. The id is public: it is listed and logged. The secret has 256 random bits, so one round of SHA-256 protects
it as well as a slow hash would. The file is JSON, and only its owner can read it. A service checks the file with each call, so that a token
works as soon as it is written, and no longer once it is revoked.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from tiering.access.file_watch import FileWatch
from tiering.access.identity import Authentication, Identity
from tiering.errors import InvalidArgument, LakewardError, SetupError, Unauthenticated

PREFIX = "lw"
FILE_VERSION = 1
PRINCIPAL_LIMIT = 200
_ID_BYTES = 6
_ID = re.compile(rf"[0-9a-f]{{{2 * _ID_BYTES}}}")
_SECRET_BYTES = 32
_NEW_TOKEN_HINT = "`lakeward token create` makes a new one on the service's machine."

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StoredToken:
    """The stored facts about a token: everything except its secret."""

    token_id: str
    principal: str
    digest: str
    """SHA-256 of the whole token as hexadecimal digits."""
    created_time: datetime
    expires_time: datetime | None = None
    groups: tuple[str, ...] = ()
    revoked_time: datetime | None = None


def new_token(
    principal: str, now: datetime, *, expires_time: datetime | None = None, groups: Iterable[str] = ()
) -> tuple[str, StoredToken]:
    """Returns a new, unique token and its record for the file. Raises InvalidArgument for an invalid principal."""
    check_principal(principal)
    for group in groups:
        check_principal(group, "a group")
    token_id = secrets.token_hex(_ID_BYTES)
    token = f"{PREFIX}_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return token, StoredToken(token_id, principal, digest_of(token), now, expires_time, tuple(groups))


def check_principal(text: str, name: str = "a principal") -> str:
    """Returns `text` if it can be the name of a principal. Raises InvalidArgument."""
    if not 0 < len(text) <= PRINCIPAL_LIMIT or not text.isprintable() or text != text.strip():
        raise InvalidArgument(f"{name} must have 1 to {PRINCIPAL_LIMIT} visible characters, without blanks around them, but is {text!r}")
    return text


def digest_of(token: str) -> str:
    """Returns the stored hash of a token, as hexadecimal digits."""
    return hashlib.sha256(token.encode()).hexdigest()


def id_of(token: str) -> str | None:
    """Returns the public part of a token; None for a text that is not a token of Lakeward."""
    parts = token.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == PREFIX else None


def public_id(token: str) -> str | None:
    """Returns the public part of a token if it has the form of a generated id. Another text may be part of a user's secret."""
    token_id = id_of(token)
    return token_id if token_id is not None and _ID.fullmatch(token_id) else None


def identity_of(token: str, stored: StoredToken | None, now: datetime, peer: str = "") -> Identity:
    """Returns the identity of a token's principal. Raises Unauthenticated if the token is unknown, revoked or expired."""
    token_id = id_of(token)
    if stored is None or not hmac.compare_digest(stored.digest, digest_of(token)):
        raise Unauthenticated("the service does not know the token of this call", hint=_NEW_TOKEN_HINT)
    if stored.revoked_time is not None:
        raise Unauthenticated(f"the token {token_id} was revoked at {_shown(stored.revoked_time)}", hint=_NEW_TOKEN_HINT)
    if stored.expires_time is not None and stored.expires_time <= now:
        raise Unauthenticated(f"the token {token_id} expired at {_shown(stored.expires_time)}", hint=_NEW_TOKEN_HINT)
    return Identity(stored.principal, Authentication.TOKEN, frozenset(stored.groups), peer)


class TokenFile:
    """The tokens that a service accepts.

    If the file cannot be read, the tokens from the last successful read stay valid, with an error log.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = path
        self._now = now
        self._watch = FileWatch(path)
        self._tokens: Mapping[str, StoredToken] = {}

    def check(self) -> None:
        """Raises SetupError for an existing file that cannot be read, so that no service starts on it."""
        read_tokens(self._path)

    def identity(self, token: str, peer: str = "") -> Identity:
        """Returns the identity of a token's principal. Raises Unauthenticated."""
        self._refresh()
        return identity_of(token, self._tokens.get(id_of(token) or ""), self._now(), peer)

    def _refresh(self) -> None:
        versions = self._watch.due()
        if versions is None:
            return
        try:
            self._tokens = {token.token_id: token for token in read_tokens(self._path)}
            self._watch.accept(versions)
        except LakewardError as error:
            if self._watch.refuse(versions):
                log.error("the file of tokens cannot be read; its former tokens stay valid", reason=error.message)


def users_with_tokens(path: Path, now: datetime) -> list[Identity]:
    """Returns the users with a token that is valid now; none if the file cannot be read."""
    try:
        tokens = read_tokens(path)
    except SetupError:
        return []
    valid = (token for token in tokens if token.revoked_time is None and (token.expires_time is None or token.expires_time > now))
    return [Identity(token.principal, Authentication.TOKEN, frozenset(token.groups)) for token in valid]


def read_tokens(path: Path) -> list[StoredToken]:
    """Returns all tokens of a file, including revoked ones; none if there is no file. Raises SetupError for an unreadable file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != FILE_VERSION:
            raise ValueError(f"its version is {content['version']!r}")
        return [_from_json(entry) for entry in content["tokens"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, LakewardError) as error:
        raise SetupError(
            f"the file of tokens {path} cannot be read: {error or type(error).__name__}",
            hint="Restore a copy of it, or remove it and create new tokens with `lakeward token create`.",
        ) from error


def add_token(path: Path, token: StoredToken) -> None:
    """Adds a token to the file. Raises SetupError."""
    with _changing(path):
        _write(path, [*read_tokens(path), token])


def revoke_token(path: Path, token_id: str, now: datetime) -> StoredToken:
    """Revokes a token in the file; a repeat has no effect. Raises InvalidArgument for an unknown id, SetupError."""
    with _changing(path):
        tokens = read_tokens(path)
        stored = next((token for token in tokens if token.token_id == token_id), None)
        if stored is None:
            raise InvalidArgument(f"{path} has no token {token_id!r}", hint="`lakeward token list` shows the ids of all tokens.")
        if stored.revoked_time is not None:
            return stored
        revoked = replace(stored, revoked_time=now)
        _write(path, [revoked if token is stored else token for token in tokens])
        return revoked


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Holds a lock between processes. Without it, two that read, add and write would lose one of the tokens."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError(f"the file of tokens {path} cannot be written: {error}", hint="Run this as the owner of that folder.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, tokens: Iterable[StoredToken]) -> None:
    text = json.dumps({"version": FILE_VERSION, "tokens": [_to_json(token) for token in tokens]}, indent=2) + "\n"
    write_private(path, text)


def write_private(path: Path, text: str) -> None:
    """Writes a file atomically that only its owner can read. Raises SetupError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SetupError(f"{path} cannot be written: {error}", hint="Check the free space and the owner of the folder.") from error


def _to_json(token: StoredToken) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(token).items()}


def _from_json(entry: Mapping[str, Any]) -> StoredToken:
    return StoredToken(
        token_id=str(entry["token_id"]),
        principal=check_principal(entry["principal"]),
        digest=str(entry["digest"]),
        created_time=datetime.fromisoformat(entry["created_time"]),
        expires_time=_moment(entry.get("expires_time")),
        groups=tuple(check_principal(group, "a group") for group in entry.get("groups", ())),
        revoked_time=_moment(entry.get("revoked_time")),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
