"""Settings for the tokens of an identity provider."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from tiering.errors import InvalidArgument

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a key pair. Signatures with a shared secret are missing, because a published key must never count as a secret."""


@dataclass(frozen=True)
class OidcSettings:
    """The settings. `jwks` is a URL (https, or http on loopback) or a file. `principal` and `groups` are names of claims."""

    issuer: str
    audience: str
    jwks: str
    principal: str = "sub"
    groups: str = "groups"
    algorithms: Sequence[str] = ("RS256", "ES256")

    def check(self) -> None:
        """Raises InvalidArgument for invalid settings."""
        unknown = [name for name in self.algorithms if name not in ALGORITHMS]
        if unknown or not self.algorithms:
            raise InvalidArgument(f"--oidc-algorithm {', '.join(unknown)!r} is not one of {', '.join(ALGORITHMS)}")
        if not is_encrypted_or_local(self.jwks):
            raise InvalidArgument(
                "--oidc-jwks must be https: with http, an attacker on the network could replace the keys", hint="Or name a file."
            )


def is_encrypted_or_local(address: str) -> bool:
    """Returns whether an attacker on the network cannot change what a program reads from the URL."""
    url = urllib.parse.urlsplit(address)
    return url.scheme != "http" or url.hostname in ("127.0.0.1", "localhost", "::1")
