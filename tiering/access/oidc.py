"""Identity by a JWT of an identity provider: issuer, audience, expiry and signature are checked against its published keys.

Keys come from a file or a URL (JWKS, RFC 7517) and are kept: a provider that is away refuses nobody whose key is known, for an hour. They
are fetched in the background, so a provider that answers slowly delays nobody whose key is known. An unknown key is asked for again, at
most every few seconds, so that a provider may change its keys while services run. A key of a kind that this version does not know is left
out alone: the others count, and one that the provider took back does not.
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
"""After so long keys are asked for again: a key that the provider took back counts no longer than that, while the provider answers."""
AGAIN_SECONDS = 10.0
"""Between two looks for an unknown key: anybody can send one."""
EXPIRE_SECONDS = 3_600.0
"""Keys of a URL that could not be fetched again for so long count no more: the provider may have taken one back."""
FETCH_SECONDS = 5.0
"""For a whole fetch, from the connection to the last byte."""
_FETCHES = 4
"""Threads of fetches at most, with those that were given up: a provider that sends a byte now and then keeps one for long."""
_LARGEST_KEYS_BYTES = 1 << 20

log = structlog.get_logger(__name__)


class OidcAuthenticator:
    """Of one provider."""

    def __init__(self, settings: OidcSettings) -> None:
        settings.check()
        self._settings = settings
        self._keys = PublishedKeys(settings.jwks)

    def check(self) -> None:
        """Raises SetupError if there are no keys: nobody should start a service without."""
        self._keys.load()

    async def identify(self, proof: Proof) -> Identity:
        """See `Authenticator`."""
        if proof.bearer is None:
            raise no_token()
        try:
            key_id = jwt.get_unverified_header(proof.bearer).get("kid")
        except jwt.InvalidTokenError as error:
            raise Unauthenticated("the token of this call is no JWT", hint=self._hint) from error
        key = await self._keys.key(key_id)
        if key is None:
            raise Unauthenticated("the token of this call was signed with no key that its provider publishes", hint=self._hint)
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
            raise Unauthenticated(f"the token of this call does not hold: {error}", hint=self._hint) from error
        return claims

    def _identity(self, claims: Mapping[str, Any], peer: str) -> Identity:
        groups = claims.get(self._settings.groups, [])
        names = [name for name in groups if isinstance(name, str)] if isinstance(groups, list) else []
        try:
            principal = check_principal(str(claims[self._settings.principal]))
        except InvalidArgument as error:
            raise Unauthenticated(f"the token of this call names nobody: {error.message}", hint=self._hint) from error
        return Identity(principal, Authentication.OIDC, frozenset(names), peer)

    @property
    def _hint(self) -> str:
        return f"Get a new one of {self._settings.issuer} for {self._settings.audience}, and put it into the file that the client names."


class PublishedKeys:
    """The keys of a provider by their ids. Thread-safe: a set of keys is replaced whole."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._is_url = urllib.parse.urlsplit(source).scheme in ("http", "https")
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._watch = None if self._is_url else FileWatch(Path(source))
        self._is_news = True
        """That keys could not be read: of a file, once a version of it."""
        self._looked = self._loaded = -EXPIRE_SECONDS
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="oidc-keys")
        self._loading: Future[None] | None = None
        self._fetches: list[threading.Thread] = []

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of that id, or the only one for a token that names none; None if there is none.

        Waits for new keys only where the known ones have no answer.
        """
        if self._is_stale(key_id):
            loading = self._in_background()
            if self._known(key_id) is None or self._watch is not None:
                await asyncio.wait([asyncio.wrap_future(loading)], timeout=2 * FETCH_SECONDS)
        return self._known(key_id)

    def _known(self, key_id: str | None) -> jwt.PyJWK | None:
        if self._is_url and time.monotonic() - self._loaded > EXPIRE_SECONDS:
            return None
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _is_stale(self, key_id: str | None) -> bool:
        if self._watch is not None:
            return self._watch.due() is not None
        age = time.monotonic() - self._looked
        return age > KEEP_SECONDS or (self._known(key_id) is None and age > AGAIN_SECONDS)

    def _in_background(self) -> Future[None]:
        """The load under way, else a new one. Called in the event loop alone."""
        if self._loading is None or self._loading.done():
            self._loading = self._threads.submit(self._load_quietly)
        return self._loading

    def _load_quietly(self) -> None:
        try:
            self.load()
        except SetupError as error:
            if self._is_news:
                log.error("the keys of the identity provider cannot be had; those before stay in force", reason=error.message)

    def load(self) -> None:
        """Raises SetupError; then the keys are as they were."""
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
                f"the keys of --oidc-jwks {self._source} cannot be read: {error or type(error).__name__}", hint="It is a JSON Web Key Set."
            ) from error
        keys = [key for key in map(_usable, signing) if key is not None]
        if not keys:
            raise SetupError(f"--oidc-jwks {self._source} has no key for signatures that this version knows")
        if len(keys) < len(signing):
            log.warning("keys of the identity provider are left out: this version does not know their kind", keys=len(signing) - len(keys))
        return {key.key_id: key for key in keys}

    def _content(self) -> bytes:
        if not self._is_url:
            return Path(self._source).read_bytes()
        content: Future[bytes] = Future()
        self._fetches = [thread for thread in self._fetches if thread.is_alive()]
        if len(self._fetches) >= _FETCHES:
            raise OSError("earlier requests for them go on yet")
        thread = threading.Thread(target=self._fetch, args=(content,), name="oidc-fetch", daemon=True)
        self._fetches.append(thread)
        thread.start()
        try:
            return content.result(FETCH_SECONDS)
        except TimeoutError:
            raise OSError(f"they did not come within {FETCH_SECONDS:g} s") from None

    def _fetch(self, content: Future[bytes]) -> None:
        """Sets the content, or why there is none. A time-out of a socket is for one read: `_content` waits for all of them together."""
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
    """The key of an entry; None for one of a kind that this version does not know."""
    try:
        return jwt.PyJWK.from_dict(entry)
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError):
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from where the option says."""

    def redirect_request(self, *_: Any) -> None:
        return None
