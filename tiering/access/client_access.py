"""What a client shows of itself and asks of the service: a file with a token, and files for TLS.

Where nothing is named, the token is the one that a service of the same user put into that user's folder, by host and port. It is looked
up with each call: a service that starts again has a new one, and a file whose token is replaced needs no restart of its readers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tiering.access.file_watch import FileVersion, file_version
from tiering.access.tokens import write_private
from tiering.errors import SetupError

TOKEN_FILE = "LAKEWARD_TOKEN_FILE"
TLS_CA = "LAKEWARD_TLS_CA"
TLS_CERT = "LAKEWARD_TLS_CERT"
TLS_KEY = "LAKEWARD_TLS_KEY"
USER_FOLDER = "LAKEWARD_HOME"
"""Environment variables. The last names another place than `~/.lakeward` for the folder of a user."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]")
_LONGEST_TOKEN_BYTES = 16_384


@dataclass(frozen=True)
class ClientAccess:
    """`token_file` None = the one in the user's folder, if there is one. `tls_ca` None and no certificate = without TLS."""

    token_file: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.tls_ca is not None or self.tls_cert is not None

    @property
    def environment(self) -> dict[str, str]:
        """For a child process."""
        paths = {TOKEN_FILE: self.token_file, TLS_CA: self.tls_ca, TLS_CERT: self.tls_cert, TLS_KEY: self.tls_key}
        return {name: str(path) for name, path in paths.items() if path is not None}


def access_from_environment(environment: Mapping[str, str] | None = None) -> ClientAccess:
    """What `LAKEWARD_TOKEN_FILE`, `LAKEWARD_TLS_CA`, `LAKEWARD_TLS_CERT` and `LAKEWARD_TLS_KEY` say."""
    known = os.environ if environment is None else environment
    return ClientAccess(*(_path(known.get(name)) for name in (TOKEN_FILE, TLS_CA, TLS_CERT, TLS_KEY)))


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None


@dataclass
class TokenSource:
    """The token to show to the service at `target`, as its file says at the moment."""

    target: str
    file: Path | None
    _version: FileVersion | None = None
    _token: str | None = field(default=None, repr=False)

    def token(self) -> str | None:
        """None without one: the service says whether it needs one. Raises SetupError for a file that was named and has none."""
        path = self.file or user_token_path(self.target)
        version = file_version(path)
        if version is None and self.file is None:
            return None
        if version is None or version != self._version:
            self._token = read_token(path)
            self._version = version
        return self._token


def read_token(path: Path) -> str:
    """The token in a file. Raises SetupError, which never has the content."""
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SetupError(f"the file of the token, {path}, cannot be read: {reason}", hint="Name a file that holds a token alone.") from None
    if not text or len(text) > _LONGEST_TOKEN_BYTES or any(not "!" <= character <= "~" for character in text):
        raise SetupError(f"the file {path} does not hold a token", hint="It must hold a token alone, on one line.")
    return text


def user_token_path(target: str, environment: Mapping[str, str] | None = None) -> Path:
    """Where the token for a service at `host:port` lies in the user's own folder. All names of this machine are one."""
    host, _, port = target.rpartition(":")
    name = "localhost" if host in _LOOPBACK else host.strip("[]").lower().replace(":", "-")
    return user_folder(environment) / "tokens" / f"{name}_{port}"


def user_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The user's own folder."""
    named = (os.environ if environment is None else environment).get(USER_FOLDER)
    return Path(named).expanduser() if named else Path.home() / ".lakeward"


def keep_user_token(target: str, token: str) -> Path:
    """Puts the token where this user's clients find it, readable by nobody else. Raises SetupError."""
    path = user_token_path(target)
    try:
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid != os.geteuid():
                raise SetupError(f"the folder {folder} belongs to another user", hint=f"Name another with {USER_FOLDER}.")
            if stat.S_IMODE(folder.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
                folder.chmod(0o700)
    except OSError as error:
        raise SetupError(f"the folder {path.parent} cannot be made: {error}", hint=f"Name another with {USER_FOLDER}.") from error
    write_private(path, token + "\n")
    return path


def forget_user_token(path: Path, token: str) -> None:
    """Removes the file if it still has this token: another service may have the port by now."""
    with suppress(SetupError, OSError):
        if read_token(path) == token:
            path.unlink()
