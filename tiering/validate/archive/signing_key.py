"""The Ed25519 key with which a service signs its proofs. It is made once, in the service's data folder, and only its owner may read it."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat, load_pem_private_key

from tiering.access.tokens import write_private
from tiering.errors import SetupError
from tiering.files.private_files import OTHERS
from tiering.validate.archive.verify import fingerprint_of


@dataclass(frozen=True)
class SigningKey:
    """A key of one service."""

    private: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> bytes:
        """The 32 bytes of the public key."""
        return self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def fingerprint(self) -> str:
        """The short name of the key, by which a reader of a proof compares it."""
        return fingerprint_of(self.public)

    def sign(self, message: bytes) -> bytes:
        """Returns the 64 bytes of the signature."""
        return self.private.sign(message)


def ensure_key(file: Path) -> None:
    """Creates the key if it is missing. Only the process that owns the data folder calls this. Raises SetupError."""
    if not file.exists():
        content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(file, content.decode("ascii"))


def read_key(file: Path) -> SigningKey:
    """Returns the key in a file. Raises SetupError for a missing file, one that others may read, and one that has no such key."""
    if not file.exists():
        raise SetupError(f"the key {file}, with which this service signs its proofs, is missing", hint="The next start makes another key.")
    if stat.S_IMODE(file.stat().st_mode) & OTHERS:
        raise SetupError(
            f"other users may read the key {file}, with which this service signs its proofs",
            hint=f"If they may have read it, remove the file: the next start makes another key. Otherwise run chmod 600 {file}.",
        )
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(file) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(file)
    return SigningKey(key)


def _unusable(file: Path) -> SetupError:
    return SetupError(
        f"the file {file} has no Ed25519 key without a password",
        hint="Restore it from a backup, or remove it: the next start makes another key, with another fingerprint.",
    )
