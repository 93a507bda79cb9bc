"""JWTs of an identity provider: what counts, what is refused, and keys that change or cannot be had."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tiering.access import oidc
from tiering.access.authentication import Proof
from tiering.access.identity import Authentication, Identity
from tiering.access.oidc import OidcAuthenticator
from tiering.access.oidc_settings import OidcSettings
from tiering.errors import InvalidArgument, SetupError, Unauthenticated

ISSUER, AUDIENCE = "https://id.example", "lakeward"


class Provider:
    """Signs tokens, and writes the keys that it publishes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.add("first")

    def add(self, key_id: str) -> None:
        self.keys[key_id] = rsa.generate_private_key(65_537, 2_048)
        self.publish()

    def publish(self) -> None:
        algorithm = jwt.get_algorithm_by_name("RS256")
        entries = [
            json.loads(algorithm.to_jwk(key.public_key())) | {"kid": key_id, "use": "sig", "alg": "RS256"}
            for key_id, key in self.keys.items()
        ]
        self.file.write_text(json.dumps({"keys": entries}))

    def token(self, key_id: str = "first", **claims: Any) -> str:
        now = datetime.now(UTC)
        payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + timedelta(minutes=5), "groups": ["etl"]} | claims
        known = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(known, self.keys[key_id], "RS256", headers={"kid": key_id})

    def settings(self, **fields: Any) -> OidcSettings:
        return OidcSettings(ISSUER, AUDIENCE, **({"jwks": str(self.file)} | fields))


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    return Provider(tmp_path / "jwks.json")


def identify(authenticator: OidcAuthenticator, token: str | None) -> Identity:
    return asyncio.run(authenticator.identify(Proof(token, "ipv4:127.0.0.1:1")))


def test_a_token_that_holds_names_its_principal_and_groups(provider: Provider) -> None:
    identity = identify(OidcAuthenticator(provider.settings()), provider.token())
    assert identity == Identity("ann", Authentication.OIDC, frozenset({"etl"}), "ipv4:127.0.0.1:1")
    by_mail = OidcAuthenticator(provider.settings(principal="email", groups="roles"))
    identity = identify(by_mail, provider.token(email="ann@example.org", roles=["ops"]))
    assert (identity.principal, identity.groups) == ("ann@example.org", {"ops"})


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"exp": datetime.now(UTC) - timedelta(hours=1)}, "has expired"),
        ({"exp": None}, 'missing the "exp"'),
        ({"iss": "https://other.example"}, "Invalid issuer"),
        ({"aud": "another service"}, "Audience doesn't match"),
        ({"aud": None}, 'missing the "aud"'),
        ({"sub": None}, 'missing the "sub"'),
        ({"sub": " "}, "has no valid principal"),
        ({"nbf": datetime.now(UTC) + timedelta(hours=1)}, "not yet valid"),
    ],
)
def test_claims_that_do_not_hold_are_refused(provider: Provider, claims: dict[str, Any], problem: str) -> None:
    with pytest.raises(Unauthenticated, match=problem):
        identify(OidcAuthenticator(provider.settings()), provider.token(**claims))


def test_no_shared_secret_and_no_unsigned_token_counts(provider: Provider) -> None:
    authenticator = OidcAuthenticator(provider.settings())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": datetime.now(UTC) + timedelta(minutes=5)}
    public = provider.keys["first"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for token in (
        signed_with_a_public_key(provider.token(), public),
        jwt.encode(claims, None, "none", headers={"kid": "first"}),
        jwt.encode(claims, rsa.generate_private_key(65_537, 2_048), "RS256", headers={"kid": "first"}),
        jwt.encode(claims, provider.keys["first"], "RS512", headers={"kid": "first"}),
        jwt.encode(claims, provider.keys["first"], "RS256", headers={"kid": "nobody's"}),
        "no.jwt.at-all",
        "lw_a_b",
    ):
        with pytest.raises(Unauthenticated):
            identify(authenticator, token)
    with pytest.raises(Unauthenticated, match="has no token"):
        identify(authenticator, None)
    assert identify(authenticator, provider.token()).principal == "ann"


def signed_with_a_public_key(token: str, public: bytes) -> str:
    """Returns the same claims under HS256 with a public key as the secret."""

    def text(content: bytes) -> str:
        return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

    content = text(b'{"alg": "HS256", "kid": "first"}') + "." + token.split(".")[1]
    return f"{content}.{text(hmac.digest(public, content.encode(), 'sha256'))}"


@pytest.mark.parametrize("algorithm", ["HS256", "none", "rs256"])
def test_algorithms_are_those_with_a_key_pair(provider: Provider, algorithm: str) -> None:
    with pytest.raises(InvalidArgument, match="is not one of RS256"):
        OidcAuthenticator(provider.settings(algorithms=(algorithm,)))


def test_keys_from_a_network_come_encrypted(provider: Provider) -> None:
    with pytest.raises(InvalidArgument, match="must be https"):
        OidcAuthenticator(provider.settings(jwks="http://id.example/keys"))


def test_new_keys_of_a_file_count_at_once_and_a_damaged_file_changes_nothing(provider: Provider) -> None:
    authenticator = OidcAuthenticator(provider.settings())
    authenticator.check()
    provider.add("second")
    assert identify(authenticator, provider.token("second")).principal == "ann"
    provider.file.write_text("{")
    assert identify(authenticator, provider.token("first")).principal == "ann"
    with pytest.raises(SetupError, match="cannot be read"):
        OidcAuthenticator(provider.settings()).check()
    del provider.keys["second"]
    provider.publish()
    assert identify(authenticator, provider.token("first")).principal == "ann"


@pytest.mark.parametrize("content", ["", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}', '{"keys": [{}]}'])
def test_no_service_starts_without_keys(provider: Provider, content: str) -> None:
    provider.file.write_text(content)
    with pytest.raises(SetupError):
        OidcAuthenticator(provider.settings()).check()


class Publisher:
    """Serves a provider's file over HTTP, and counts who asks."""

    def __init__(self, provider: Provider) -> None:
        self.requests = 0
        self.status = 200
        self.answering = threading.Event()
        """Cleared: an answer begins and does not end."""
        self.answering.set()
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.requests += 1
                self.send_response(publisher.status)
                if publisher.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                publisher.answering.wait(60)
                self.wfile.write(provider.file.read_bytes())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"


@pytest.fixture
def publisher(provider: Provider) -> Iterator[Publisher]:
    publisher = Publisher(provider)
    thread = threading.Thread(target=publisher.server.serve_forever)
    thread.start()
    yield publisher
    publisher.answering.set()
    publisher.server.shutdown()
    thread.join(60)
    publisher.server.server_close()


def test_keys_of_a_url_are_asked_for_once_and_again_for_an_unknown_one(
    provider: Provider, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(oidc.time, "monotonic", lambda: now[0])
    authenticator = OidcAuthenticator(provider.settings(jwks=publisher.url))
    for _ in range(3):
        assert identify(authenticator, provider.token()).principal == "ann"
    assert publisher.requests == 1
    provider.add("second")
    for _ in range(3):  # at most once in AGAIN_SECONDS: any caller can send unknown ids
        with pytest.raises(Unauthenticated, match="not signed with a key that its provider publishes"):
            identify(authenticator, provider.token("second"))
    assert publisher.requests == 1
    now[0] += oidc.AGAIN_SECONDS + 1
    assert identify(authenticator, provider.token("second")).principal == "ann"
    assert publisher.requests == 2


def settle(authenticator: OidcAuthenticator) -> None:
    """Waits for the load in the background."""
    assert authenticator._keys._loading is not None
    authenticator._keys._loading.result(60)


def test_a_key_of_an_unknown_kind_is_left_out_alone_and_one_that_was_taken_back_counts_no_more(provider: Provider) -> None:
    authenticator = OidcAuthenticator(provider.settings())
    provider.add("second")
    first = provider.token("first")
    assert identify(authenticator, first).principal == "ann"
    del provider.keys["first"]
    provider.publish()
    keys = json.loads(provider.file.read_text())["keys"]
    half: dict[str, str] = {"kty": "RSA", "kid": "half", "use": "sig"}
    strange = [{"kty": "AKP", "alg": "ML-DSA-65", "kid": "post-quantum", "use": "sig", "pub": "AA"}, half]
    provider.file.write_text(json.dumps({"keys": [*strange, *keys]}))
    assert identify(authenticator, provider.token("second")).principal == "ann"
    with pytest.raises(Unauthenticated, match="not signed with a key that its provider publishes"):
        identify(authenticator, first)


def test_keys_that_could_not_be_fetched_for_an_hour_count_no_more(
    provider: Provider, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(oidc.time, "monotonic", lambda: now[0])
    authenticator = OidcAuthenticator(provider.settings(jwks=publisher.url))
    identify(authenticator, provider.token())
    publisher.status = 503
    now[0] += oidc.EXPIRE_SECONDS - 1
    assert identify(authenticator, provider.token()).principal == "ann"
    settle(authenticator)
    now[0] += oidc.AGAIN_SECONDS + 2
    with pytest.raises(Unauthenticated, match="not signed with a key that its provider publishes"):
        identify(authenticator, provider.token())
    publisher.status = 200
    now[0] += oidc.AGAIN_SECONDS + 1
    assert identify(authenticator, provider.token()).principal == "ann"


def test_a_provider_that_does_not_end_its_answer_delays_no_caller_with_a_known_key(
    provider: Provider, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(oidc.time, "monotonic", lambda: now[0])
    authenticator = OidcAuthenticator(provider.settings(jwks=publisher.url))
    identify(authenticator, provider.token())
    publisher.answering.clear()
    now[0] += oidc.KEEP_SECONDS + 1
    assert identify(authenticator, provider.token()).principal == "ann"
    assert authenticator._keys._loading is not None
    assert not authenticator._keys._loading.done(), "the answer came before the fetch ended"
    publisher.answering.set()
    settle(authenticator)


def test_a_fetch_has_one_deadline_for_all_of_it(provider: Provider, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "FETCH_SECONDS", 0.05)
    publisher.answering.clear()
    with pytest.raises(SetupError, match=r"did not arrive within 0.05 s|timed out"):
        OidcAuthenticator(provider.settings(jwks=publisher.url)).check()


def test_a_provider_that_is_away_refuses_no_caller_with_a_known_key(
    provider: Provider, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(oidc.time, "monotonic", lambda: now[0])
    authenticator = OidcAuthenticator(provider.settings(jwks=publisher.url))
    identify(authenticator, provider.token())
    for publisher.status in (503, 302):
        now[0] += oidc.KEEP_SECONDS + 1
        before = publisher.requests
        assert identify(authenticator, provider.token()).principal == "ann"
        settle(authenticator)
        assert publisher.requests == before + 1
