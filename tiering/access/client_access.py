"""How a client authenticates to the service: a file with a token, and files for TLS.

If none is named, the token is the one that a service of the same user wrote into that user's folder, by address, port and machine. It is
read with each call, so that a restarted service's new token and a replaced file work at once. No token leaves this machine in clear text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tiering.access.file_watch import FileVersion, file_version
from tiering.access.loopback import addresses_of_listener, stays_on_this_machine, token_file_name
from tiering.access.tokens import write_private
from tiering.errors import SetupError
from tiering.model.option import option, options_of

TOKEN_FILE = "LAKEWARD_TOKEN_FILE"
TLS_CA = "LAKEWARD_TLS_CA"
TLS_CERT = "LAKEWARD_TLS_CERT"
TLS_KEY = "LAKEWARD_TLS_KEY"
USER_FOLDER = "LAKEWARD_HOME"
"""Names of environment variables. The last one is the folder of a user instead of `~/.lakeward`."""

_LONGEST_TOKEN_BYTES = 16_384


CONNECTION = "Token and TLS"
"""Title of the group of these options on help pages."""


@dataclass(frozen=True)
class ClientAccess:
    """The files of a client. `token_file` None: the one in the user's folder, if it exists. `tls_ca` None and no certificate: no TLS."""

    # fmt: off
    token_file: Path | None = option(
        None, "File with the token that the command shows. Default: the token of the service that the same user runs.",
        flag="--token-file", unit="FILE", variable=TOKEN_FILE, group=CONNECTION,
    )
    tls_ca: Path | None = option(
        None, "PEM file with the certificate authorities that the command trusts. It turns TLS on.",
        flag="--tls-ca", unit="FILE", variable=TLS_CA, group=CONNECTION,
    )
    tls_cert: Path | None = option(
        None, "PEM file with the command's own certificate, for mTLS.",
        flag="--tls-cert", unit="FILE", variable=TLS_CERT, group=CONNECTION,
    )
    tls_key: Path | None = option(
        None, "PEM file with the private key of --tls-cert.", flag="--tls-key", unit="FILE", variable=TLS_KEY, group=CONNECTION
    )
    # fmt: on

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.tls_ca is not None or self.tls_cert is not None

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for a child process."""
        paths = {declared.variable: getattr(self, name) for name, declared in options_of(ClientAccess).items()}
        return {str(variable): str(path) for variable, path in paths.items() if path is not None}


def access_from_environment(environment: Mapping[str, str] | None = None) -> ClientAccess:
    """Returns the files that `LAKEWARD_TOKEN_FILE`, `LAKEWARD_TLS_CA`, `LAKEWARD_TLS_CERT` and `LAKEWARD_TLS_KEY` name."""
    variables = os.environ if environment is None else environment
    return ClientAccess(*(_path(variables.get(name)) for name in (TOKEN_FILE, TLS_CA, TLS_CERT, TLS_KEY)))


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None


@dataclass
class TokenSource:
    """The present token for the service at `addresses` (`host:port` each), from its file."""

    addresses: Sequence[str]
    access: ClientAccess
    _version: FileVersion | None = None
    _token: str | None = field(default=None, repr=False)

    def token(self) -> str | None:
        """Returns the token; None if there is none, and then the service decides whether it needs one.

        Raises SetupError for a named file without a token, and for a token that would leave this machine in clear text.
        """
        path = self._file()
        version = None if path is None else file_version(path)
        if path is None or (version is None and self.access.token_file is None):
            return None
        if version is None or version != self._version:
            self._token = read_token(path)
            self._version = version
        return self._token

    def _file(self) -> Path | None:
        named = self.access.token_file
        exposed = () if self.access.is_encrypted else [address for address in self.addresses if not _stays_here(address)]
        if named is not None and exposed:
            raise SetupError(
                f"the token in {named} is not sent to {exposed[0]} in clear text",
                hint="Start the service with --server-cert and --server-key, and name the authority of its certificate with --tls-ca or in "
                f"{TLS_CA}. Or connect to 127.0.0.1 through a tunnel such as `ssh -L`.",
            )
        if named is not None:
            return named
        # With several addresses no file is used: the token of one coordinator is not valid for its standby.
        return user_token_path(self.addresses[0]) if len(self.addresses) == 1 and not exposed else None


def _stays_here(address: str) -> bool:
    return stays_on_this_machine(address.rpartition(":")[0])


def read_token(path: Path) -> str:
    """Returns the token in a file. Raises SetupError, whose text never has the content."""
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise SetupError(f"the token file {path} cannot be read: {reason}", hint="Name a file that holds only a token.") from None
    if not text or len(text) > _LONGEST_TOKEN_BYTES or any(not "!" <= character <= "~" for character in text):
        raise SetupError(f"the file {path} does not hold a token", hint="It must hold only a token, on one line.")
    return text


def user_token_path(target: str, environment: Mapping[str, str] | None = None) -> Path:
    """Returns the path of the token file for the service at `host:port` in the user's own folder."""
    host, _, port = target.rpartition(":")
    return user_folder(environment) / "tokens" / token_file_name(host, port)


def user_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Returns the user's own folder."""
    named = (os.environ if environment is None else environment).get(USER_FOLDER)
    return Path(named).expanduser() if named else Path.home() / ".lakeward"


def keep_user_token(target: str, token: str) -> list[Path]:
    """Writes the token to the files where this user's clients find it. Only the user can read them.

    `target` is the address on which the service listens. Raises SetupError.
    """
    host, _, port = target.rpartition(":")
    paths = [user_token_path(f"{address}:{port}") for address in addresses_of_listener(host)]
    tokens = paths[0].parent
    try:
        for folder in (tokens.parent, tokens):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid != os.geteuid():
                raise SetupError(f"the folder {folder} belongs to another user", hint=f"Name another with {USER_FOLDER}.")
            if stat.S_IMODE(folder.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
                folder.chmod(0o700)
    except OSError as error:
        raise SetupError(f"the folder {tokens} cannot be created: {error}", hint=f"Name another with {USER_FOLDER}.") from error
    for path in paths:
        write_private(path, token + "\n")
    return paths


def forget_user_token(paths: Iterable[Path], token: str) -> None:
    """Removes the files that still have this token. Another service may have the port by now."""
    for path in paths:
        with suppress(SetupError, OSError):
            if read_token(path) == token:
                path.unlink()
