"""Sign-in to the console of a service at an OpenID provider: over real HTTP, with PKCE; and answers that open no session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from support.services.guarded_service import guarded_service
from support.services.openid_provider import AUDIENCE, CLIENT, SECRET, OpenIdProvider, openid_provider
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.service import identity_provider, rates
from tiering.cli.terminal.access_options import AccessOptions, Auth
from tiering.cli.terminal.console_options import ConsoleOptions
from tiering.errors import InvalidArgument
from tiering.model.tables import TablePath

POLICIES = """
permit (principal == User::"olga", action, resource);
permit (principal in Group::"staff", action, resource == Table::"hr.people");
"""
PEOPLE, LAYOFFS = TablePath("hr", "people"), TablePath("hr", "layoffs")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OpenIdProvider, str]]:
    """A provider, and the address of the console of a service that trusts it."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "secret").write_text(f"{SECRET}\n")
    with openid_provider() as running:
        access = AccessOptions(Auth.OIDC, oidc_issuer=running.issuer, oidc_audience=AUDIENCE, oidc_jwks=f"{running.issuer}/keys")
        console = ConsoleOptions(bound_port=0, oidc_client=CLIENT, oidc_secret_file=folder / "secret")
        with guarded_service(folder, POLICIES, {}, console, access) as service:
            for path in (PEOPLE, LAYOFFS):
                service.ensure_table(path)
            with SystemCatalog(service.running.uri) as owner:
                link = owner.console_link()
            assert link is not None
            yield running, link.partition("/sign-in/")[0]


@pytest.fixture
def provider(started: tuple[OpenIdProvider, str], monkeypatch: pytest.MonkeyPatch) -> OpenIdProvider:
    """After the test the provider has the settings of its start again."""
    running = started[0]
    for name, value in {"user": "ana", "document": {}, "id_claims": {}, "access_claims": {}, "refusal": None}.items():
        monkeypatch.setattr(running, name, value)
    monkeypatch.setattr(identity_provider, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(rates.TokenBuckets, "wait_seconds", lambda self, key: 0.0)  # the tests are more sign-ins than a minute allows
    return running


@pytest.fixture
def browser(started: tuple[OpenIdProvider, str]) -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=60, base_url=started[1], follow_redirects=True) as opened:
        yield opened


def sign_in(browser: httpx2.Client) -> httpx2.Response:
    return browser.get("sign-in/provider")


def test_the_sign_in_page_leads_to_the_provider_and_back(provider: OpenIdProvider, browser: httpx2.Client) -> None:
    page = browser.get("")
    assert page.status_code == 200
    assert "Sign in with 127.0.0.1" in page.text
    answer = sign_in(browser)
    assert answer.status_code == 200
    assert "Signed in" in answer.text
    assert provider.secrets[-1] == SECRET
    overview = browser.get("")
    assert "people" in overview.text
    assert "layoffs" not in overview.text
    assert browser.get("tables/hr/layoffs").status_code == 404


def test_each_browser_reads_as_the_user_who_is_signed_in_at_the_provider(
    provider: OpenIdProvider, browser: httpx2.Client, started: tuple[OpenIdProvider, str]
) -> None:
    sign_in(browser)
    provider.user = "olga"
    with httpx2.Client(timeout=60, base_url=started[1], follow_redirects=True) as other:
        sign_in(other)
        assert "layoffs" in other.get("").text
    assert "layoffs" not in browser.get("").text


def test_cookies_of_a_sign_in_are_short_and_for_its_pages_alone(provider: OpenIdProvider, browser: httpx2.Client) -> None:
    first = browser.get("sign-in/provider", follow_redirects=False)
    cookie = first.headers["set-cookie"]
    for part in ("HttpOnly", "Max-Age=600", "Path=/ui/sign-in", "SameSite=lax"):
        assert part in cookie
    query = parse_qs(urlsplit(first.headers["location"]).query)
    assert (query["response_type"], query["client_id"], query["code_challenge_method"]) == (["code"], [CLIENT], ["S256"])
    assert query["redirect_uri"][0].endswith("/ui/sign-in/answer")
    last = sign_in(browser)
    assert "SameSite=strict" in last.headers["set-cookie"]
    assert not [name for name in browser.cookies if name.startswith("lakeward-sign-in")]


@pytest.mark.parametrize(
    ("attribute", "value", "problem", "status"),
    [
        ("refusal", {"error": "access_denied", "error_description": "<b>not you</b>"}, "refused the sign-in: &lt;b&gt;not you", 403),
        ("id_claims", {"nonce": "another"}, "another sign-in", 403),
        ("id_claims", {"aud": "another client"}, "ID token of the identity provider is invalid", 403),
        ("id_claims", {"iss": "https://other.example"}, "ID token of the identity provider is invalid", 403),
        ("access_claims", {"aud": "another service"}, "no token for the audience lakeward", 403),
        ("document", {"issuer": "https://other.example"}, "names the issuer https://other.example", 503),
        ("document", {"token_endpoint": "http://other.example/token"}, "must be https", 503),
        ("document", {"authorization_endpoint": "javascript:alert(1)"}, "must be https", 503),
        ("document", {"token_endpoint": "http://127.0.0.1:9/token"}, "cannot be asked", 503),
    ],
)
def test_other_answers_open_no_session(
    provider: OpenIdProvider, browser: httpx2.Client, attribute: str, value: dict[str, str], problem: str, status: int
) -> None:
    setattr(provider, attribute, value)
    answer = sign_in(browser)
    assert (answer.status_code, problem in answer.text) == (status, True), answer.text
    assert "Sign in with" in browser.get("").text


def test_an_answer_counts_only_in_the_browser_that_asked_and_once(
    provider: OpenIdProvider, browser: httpx2.Client, started: tuple[OpenIdProvider, str]
) -> None:
    request = browser.get("sign-in/provider", follow_redirects=False)
    answered = httpx2.get(timeout=60, url=request.headers["location"]).headers["location"]
    with httpx2.Client(timeout=60, base_url=started[1], follow_redirects=True) as other:
        refused = other.get(answered)
        assert (refused.status_code, "did not begin in this browser" in refused.text) == (403, True)
        other.get("sign-in/provider", follow_redirects=False)
        assert "another sign-in" in other.get(answered).text
    assert browser.get(answered).status_code == 200
    assert "people" in browser.get("").text
    assert "did not begin in this browser" in browser.get(answered).text


def test_a_code_is_void_without_its_verifier(provider: OpenIdProvider, browser: httpx2.Client) -> None:
    request = browser.get("sign-in/provider", follow_redirects=False)
    answered = httpx2.get(timeout=60, url=request.headers["location"].replace("code_challenge=", "code_challenge=x")).headers["location"]
    refused = browser.get(answered)
    assert (refused.status_code, "refused the code: the code is not valid" in refused.text) == (403, True), refused.text


@pytest.mark.parametrize("auth", [Auth.TOKEN, Auth.NONE])
def test_a_client_needs_oidc(auth: Auth) -> None:
    with pytest.raises(InvalidArgument, match="--console-oidc-client needs a console and --auth oidc"):
        ConsoleOptions(port="0", oidc_client=CLIENT).begin(7707, AccessOptions(auth), is_on=True)


def test_a_secret_is_in_a_file(tmp_path: Path) -> None:
    options = ConsoleOptions(port="0", oidc_client=CLIENT, oidc_secret_file=tmp_path / "missing")
    with pytest.raises(InvalidArgument, match="is not a file"):
        options.begin(7707, AccessOptions(Auth.OIDC), is_on=True)
