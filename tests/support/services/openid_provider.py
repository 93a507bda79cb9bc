"""A small OpenID provider over HTTP: discovery, keys, an authorization page that answers at once, and tokens for codes with PKCE."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET, AUDIENCE = "lakeward-console", "s3cret", "lakeward"


class OpenIdProvider:
    """`user` is signed in at it. The other attributes are what a wrong or hostile provider would do."""

    def __init__(self, address: str) -> None:
        self.issuer = address
        self.user, self.groups = "ana", ["staff"]
        self.document: dict[str, Any] = {}
        self.id_claims: dict[str, Any] = {}
        self.access_claims: dict[str, Any] = {}
        self.refusal: dict[str, str] | None = None
        self.secrets: list[str | None] = []
        """The secrets that clients showed."""
        self._key = rsa.generate_private_key(65_537, 2_048)
        self._requests: dict[str, dict[str, str]] = {}

    def discovery(self) -> dict[str, Any]:
        addresses = {"authorization_endpoint": f"{self.issuer}/authorize", "token_endpoint": f"{self.issuer}/token"}
        return {"issuer": self.issuer, **addresses, **self.document}

    def keys(self) -> dict[str, Any]:
        entry = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(self._key.public_key()))
        return {"keys": [entry | {"kid": "first", "use": "sig"}]}

    def authorize(self, query: dict[str, str]) -> str:
        """The address to which the browser goes on."""
        assert (query["response_type"], query["client_id"], query["code_challenge_method"]) == ("code", CLIENT, "S256")
        if self.refusal is not None:
            return f"{query['redirect_uri']}?{urlencode(self.refusal | {'state': query['state']})}"
        code = secrets.token_urlsafe(8)
        self._requests[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def tokens(self, form: dict[str, str], secret: str | None) -> tuple[int, dict[str, Any]]:
        """The status and the answer for a code."""
        self.secrets.append(secret)
        request = self._requests.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if request is None or challenge != request["code_challenge"] or form["redirect_uri"] != request["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "the code is not valid"}
        id_token = self._token(CLIENT, {"nonce": request["nonce"]} | self.id_claims)
        access_token = self._token(AUDIENCE, {"groups": self.groups} | self.access_claims)
        return 200, {"access_token": access_token, "id_token": id_token, "token_type": "Bearer", "expires_in": 300}

    def _token(self, audience: str, claims: dict[str, Any]) -> str:
        payload = {"iss": self.issuer, "aud": audience, "sub": self.user, "exp": datetime.now(UTC) + timedelta(minutes=5)} | claims
        return jwt.encode(payload, self._key, "RS256", headers={"kid": "first"})


@contextmanager
def openid_provider() -> Iterator[OpenIdProvider]:
    """Runs one on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    provider = OpenIdProvider(f"http://127.0.0.1:{server.server_address[1]}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
                self.end_headers()
                return
            self._answer(200, provider.keys() if parts.path == "/keys" else provider.discovery())

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            shown = self.headers.get("Authorization", "").removeprefix("Basic ")
            self._answer(*provider.tokens(form, base64.b64decode(shown).decode().partition(":")[2] if shown else None))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server.RequestHandlerClass = Handler
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
