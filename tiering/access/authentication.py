"""How a service learns who calls: from a token, from the certificate of the connection, or from a JWT of an identity provider.

An authenticator gets what the transport proved (`Proof`), and never a message. Which one a service has, its command line says.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from tiering.access.identity import Identity
from tiering.access.tokens import TokenFile, id_of
from tiering.errors import Unauthenticated

AUTHORIZATION = "authorization"
_SCHEME = "bearer "
TOKEN_LIMIT = 6_000
"""Characters of a token at most: of a JWT with many groups. All headers of a call have 8 KiB."""


@dataclass(frozen=True)
class Proof:
    """What a call shows of who makes it. `certificate` has the properties of the client's, as gRPC names them."""

    bearer: str | None = None
    peer: str = ""
    certificate: Mapping[str, Iterable[bytes]] = field(default_factory=dict)


class Authenticator(Protocol):
    """Says who calls."""

    async def identify(self, proof: Proof) -> Identity:
        """Raises Unauthenticated. It waits for nothing but an identity provider."""


def bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """The token of a call's headers; None without one. Raises Unauthenticated for headers that cannot be right."""
    values = [value for name, value in metadata if name == AUTHORIZATION]
    if not values:
        return None
    if len(values) > 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
        raise Unauthenticated(
            "the call must have one header `authorization`, with a bearer token", hint="Is the client of the service's version?"
        )
    token = values[0][len(_SCHEME) :].strip()
    if len(token) > TOKEN_LIMIT:
        raise Unauthenticated(f"a token has at most {TOKEN_LIMIT} characters; this one has {len(token)}")
    return token


class TokenAuthenticator:
    """By the tokens of a file, and by that of the service's owner, whose file is none of those."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def identify(self, proof: Proof) -> Identity:
        """See `Authenticator`."""
        if proof.bearer is None:
            raise no_token()
        return self._file.identity(proof.bearer, proof.peer)


class OwnersToken:
    """Before another authenticator: the token that the service made for the user whom it runs as."""

    def __init__(self, token: str, owner: Identity, others: Authenticator) -> None:
        self._id = id_of(token)
        self._token = token
        self._owner = owner
        self._others = others

    async def identify(self, proof: Proof) -> Identity:
        """See `Authenticator`."""
        if proof.bearer is not None and self._id == id_of(proof.bearer) and _equal(self._token, proof.bearer):
            return replace(self._owner, peer=proof.peer)
        return await self._others.identify(proof)


def no_token() -> Unauthenticated:
    """For a call without one."""
    return Unauthenticated(
        "the service asks who calls, and the call has no token",
        hint="Put the path of a token into LAKEWARD_TOKEN_FILE, or into the catalog option token-file of Spark. On the service's"
        " machine its owner needs none. `lakeward token create` makes one.",
    )


def _equal(token: str, other: str) -> bool:
    return hmac.compare_digest(token.encode(), other.encode())
