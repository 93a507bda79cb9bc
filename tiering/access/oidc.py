"""Authentication by a JWT of an identity provider: issuer, audience, expiry and signature are checked against the provider's published
keys.

Keys come from a file or a URL (JWKS, RFC 7517) and are cached. If the provider is unavailable, tokens with a known key stay valid for an
hour. Keys are fetched in the background, so that a slow provider delays no token with a known key. An unknown key is fetched again, at most
every few seconds, so that a provider may change its keys while services run. A single key of an unsupported kind is skipped: the other keys
count, and a key that the provider removed does not.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import structlog

from tiering.access.authentication import Proof, no_token
from tiering.access.file_watch import FileWatch
from tiering.access.identity import Authentication, Identity
from tiering.access.oidc_settings import OidcSettings
from tiering.access.tokens import check_principal
from tiering.errors import InvalidArgument, SetupError, Unauthenticated

LEEWAY_SECONDS = 30
KEEP_SECONDS = 300.0
"""Age after which keys are fetched again. While the provider answers, a removed key is valid for at most this long."""
AGAIN_SECONDS = 10.0
"""Shortest time between two fetches because of an unknown key. Any caller can send one."""
EXPIRE_SECONDS = 3_600.0
"""Keys from a URL that could not be fetched again for this long are invalid, because the provider may have removed one."""
FETCH_SECONDS = 5.0
"""Time limit of a whole fetch, from the connection to the last byte."""
_FETCHES = 4
"""Upper bound of fetch threads, including abandoned ones. A provider that sends a byte from time to time keeps one busy for long."""
_LARGEST_KEYS_BYTES = 1 << 20

log = structlog.get_logger(__name__)


class OidcAuthenticator:
    """Authenticates callers with the tokens of one provider."""

    def __init__(self, settings: OidcSettings) -> None:
        settings.check()
        self._settings = settings
        self._keys = PublishedKeys(settings.jwks)

    def check(self) -> None:
        """Raises SetupError if there are no keys, so that no service starts without any."""
        self._keys.load()

    async def identify(self, proof: Proof) -> Identity:
        """Returns the identity in the call's JWT. Raises Unauthenticated."""
        if proof.bearer is None:
            raise no_token()
        try:
            key_id = jwt.get_unverified_header(proof.bearer).get("kid")
        except jwt.InvalidTokenError as error:
            raise Unauthenticated("the token of this call is not a JWT", hint=self._hint) from error
        key = await self._keys.key(key_id)
        if key is None:
            raise Unauthenticated("the token of this call was not signed with a key that its provider publishes", hint=self._hint)
        return self._identity(self._claims(proof.bearer, key), proof.peer)

    def _claims(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any]:
        settings = self._settings
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", settings.principal]},
            )
        except jwt.ExpiredSignatureError as error:
            raise Unauthenticated("the token of this call has expired", hint=self._hint) from error
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the token of this call is invalid: {error}", hint=self._hint) from error
        return claims

    def _identity(self, claims: Mapping[str, Any], peer: str) -> Identity:
        groups = claims.get(self._settings.groups, [])
        names = [name for name in groups if isinstance(name, str)] if isinstance(groups, list) else []
        try:
            principal = check_principal(str(claims[self._settings.principal]))
        except InvalidArgument as error:
            raise Unauthenticated(f"the token of this call has no valid principal: {error.message}", hint=self._hint) from error
        return Identity(principal, Authentication.OIDC, frozenset(names), peer)

    @property
    def _hint(self) -> str:
        return f"Get a new token of {self._settings.issuer} for {self._settings.audience}, and put it into the client's token file."


class PublishedKeys:
    """A provider's keys by id. It is thread-safe, because a set of keys is replaced as a whole."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._is_url = urllib.parse.urlsplit(source).scheme in ("http", "https")
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._watch = None if self._is_url else FileWatch(Path(source))
        self._is_news = True
        """Whether a failed read of the keys should be logged: for a file, once per version of it."""
        self._looked = self._loaded = -EXPIRE_SECONDS
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="oidc-keys")
        self._loading: Future[None] | None = None
        self._fetches: list[threading.Thread] = []

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """Returns the key with this id, or the only key if a token names none; None if there is no such key.

        It waits for new keys only if the known keys do not include it.
        """
        if self._is_stale(key_id):
            loading = self._in_background()
            if self._cached_key(key_id) is None or self._watch is not None:
                await asyncio.wait([asyncio.wrap_future(loading)], timeout=2 * FETCH_SECONDS)
        return self._cached_key(key_id)

    def _cached_key(self, key_id: str | None) -> jwt.PyJWK | None:
        if self._is_url and time.monotonic() - self._loaded > EXPIRE_SECONDS:
            return None
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _is_stale(self, key_id: str | None) -> bool:
        if self._watch is not None:
            return self._watch.due() is not None
        age = time.monotonic() - self._looked
        return age > KEEP_SECONDS or (self._cached_key(key_id) is None and age > AGAIN_SECONDS)

    def _in_background(self) -> Future[None]:
        """Returns the running load, or starts a new one. Call it only in the event loop."""
        if self._loading is None or self._loading.done():
            self._loading = self._threads.submit(self._load_quietly)
        return self._loading

    def _load_quietly(self) -> None:
        try:
            self.load()
        except SetupError as error:
            if self._is_news:
                log.error("the keys of the identity provider cannot be read; the former keys stay valid", reason=error.message)

    def load(self) -> None:
        """Reads the keys. Raises SetupError and then keeps the former keys."""
        self._looked = time.monotonic()
        if self._watch is None:
            self._keys = self._read()
            self._loaded = self._looked
        elif (versions := self._watch.due()) is not None:
            try:
                self._keys = self._read()
            except SetupError:
                self._is_news = self._watch.refuse(versions)
                raise
            self._watch.accept(versions)

    def _read(self) -> Mapping[str | None, jwt.PyJWK]:
        try:
            entries = json.loads(self._content())["keys"]
            signing = [entry for entry in entries if entry.get("use", "sig") == "sig" and entry.get("kty") != "oct"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SetupError(
                f"the keys of --oidc-jwks {self._source} cannot be read: {error or type(error).__name__}",
                hint="Use a JSON Web Key Set.",
            ) from error
        keys = [key for key in map(_usable, signing) if key is not None]
        if not keys:
            raise SetupError(f"--oidc-jwks {self._source} has no signature key that this version supports")
        if len(keys) < len(signing):
            log.warning("keys of the identity provider are skipped, because this version lacks their kind", keys=len(signing) - len(keys))
        return {key.key_id: key for key in keys}

    def _content(self) -> bytes:
        if not self._is_url:
            return Path(self._source).read_bytes()
        content: Future[bytes] = Future()
        self._fetches = [thread for thread in self._fetches if thread.is_alive()]
        if len(self._fetches) >= _FETCHES:
            raise OSError("earlier requests for them still run")
        thread = threading.Thread(target=self._fetch, args=(content,), name="oidc-fetch", daemon=True)
        self._fetches.append(thread)
        thread.start()
        try:
            return content.result(FETCH_SECONDS)
        except TimeoutError:
            raise OSError(f"they did not arrive within {FETCH_SECONDS:g} s") from None

    def _fetch(self, content: Future[bytes]) -> None:
        """Sets the content or the error. The socket's timeout limits one read; `_content` limits the whole fetch."""
        deadline = time.monotonic() + FETCH_SECONDS
        try:
            with urllib.request.build_opener(_NoRedirect).open(self._source, timeout=FETCH_SECONDS) as answer:
                text = bytearray()
                while (piece := answer.read1(_LARGEST_KEYS_BYTES)) and time.monotonic() < deadline:
                    text += piece
                    if len(text) > _LARGEST_KEYS_BYTES:
                        raise ValueError(f"more than {_LARGEST_KEYS_BYTES} bytes")
            content.set_result(bytes(text))
        except Exception as error:
            content.set_exception(error)


def _usable(entry: Any) -> jwt.PyJWK | None:
    """Returns the key of an entry; None for a kind that this version does not support."""
    try:
        return jwt.PyJWK.from_dict(entry)
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError):
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, so that keys come only from the location in the option."""

    def redirect_request(self, *_: Any) -> None:
        return None
