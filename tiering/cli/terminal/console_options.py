"""Options of the console that a service has itself (docs/console.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from tiering.cli.terminal.access_options import AccessOptions, Auth
from tiering.errors import InvalidArgument
from tiering.model.option import option

_CONSOLE = "Console"
_NO_CONSOLE = "none"
PORT_DISTANCE = 10
"""The console's default port is the port of the service plus this number: 7717 beside 7707. So two services of a machine do not collide."""


@dataclass(frozen=True)
class ConsoleOptions:
    """Where a service has its console."""

    # fmt: off
    port: str | None = option(
        None,
        "Port of the console, on the address of --host; 0 picks a free port, none turns the console off. Default for `lakeward up`: "
        f"{PORT_DISTANCE} above --port; for `lakeward coordinator`: none.",
        flag="--console-port", unit="PORT|none", variable="LAKEWARD_CONSOLE_PORT", group=_CONSOLE,
    )
    url: str | None = option(
        None, "Address of the console in browsers, such as https://lake.example, if it differs from --host and --console-port.",
        flag="--console-url", unit="URL", group=_CONSOLE,
    )
    trusted_proxies: str | None = option(
        None,
        "Addresses or networks of the proxies before the console, separated by commas, such as 10.0.0.5,10.1.0.0/16. The limit of "
        "sign-in links is then for each address that such a proxy names in X-Forwarded-For, and otherwise for each address that connects.",
        flag="--console-trusted-proxies", unit="ADDRESSES", group=_CONSOLE,
    )
    oidc_client: str | None = option(
        None, "Client id of the console at the provider of --auth oidc. Users then sign in there, besides with links.",
        flag="--console-oidc-client", unit="ID", group=_CONSOLE,
    )
    oidc_secret_file: Path | None = option(
        None, "File with the secret of that client. None: a public client, which PKCE alone protects.",
        flag="--console-oidc-secret-file", unit="FILE", group=_CONSOLE,
    )
    oidc_scope: str = option(
        "openid profile email", "Scopes that the console asks for.", flag="--console-oidc-scope", unit="SCOPES", group=_CONSOLE
    )
    # fmt: on
    bound_port: int | None = None
    """The port as a number, which `begin` reads; None without a console."""

    def begin(self, service_port: int, access: AccessOptions, is_on: bool) -> ConsoleOptions:
        """Returns the options with the port as a number. `is_on`: a console is the default. Raises InvalidArgument."""
        port = self._port(service_port, is_on and access.auth is not Auth.MTLS)
        if port is not None and access.auth is Auth.MTLS:
            raise InvalidArgument(
                "a service with --auth mtls has no console: it cannot call with the certificate of a browser's user",
                hint="Leave out --console-port. `lakeward console` shows the pages on each user's machine.",
            )
        if self.url is not None:
            _check_url(self.url)
        for proxy in self.proxies:
            _check_proxy(proxy)
        if self.oidc_client is not None and (port is None or access.auth is not Auth.OIDC):
            raise InvalidArgument(
                "--console-oidc-client needs a console and --auth oidc",
                hint="Add --console-port and --auth oidc, or leave out --console-oidc-client.",
            )
        if self.oidc_secret_file is not None and not self.oidc_secret_file.is_file():
            raise InvalidArgument(
                f"--console-oidc-secret-file {self.oidc_secret_file} is not a file", hint="Write the client's secret into it."
            )
        return replace(self, bound_port=port)

    @property
    def proxies(self) -> list[str]:
        """The addresses and networks of the trusted proxies."""
        return [] if self.trusted_proxies is None else [proxy.strip() for proxy in self.trusted_proxies.split(",")]

    def _port(self, service_port: int, is_on: bool) -> int | None:
        if self.port is None:
            highest = 65_535 - PORT_DISTANCE
            return None if not is_on else service_port + PORT_DISTANCE if 0 < service_port <= highest else 0
        if self.port == _NO_CONSOLE:
            return None
        if not self.port.isascii() or not self.port.isdigit() or int(self.port) > 65_535:
            raise InvalidArgument(f"--console-port {self.port[:60]!r} is not a port", hint="Write a number up to 65535, or none.")
        return int(self.port)


def _check_proxy(proxy: str) -> None:
    """Raises InvalidArgument for a text that is no address and no network, and for the network of all addresses, which any client is in."""
    try:
        is_proxy = ip_network(proxy).prefixlen > 0
    except ValueError:
        is_proxy = False
    if not is_proxy:
        raise InvalidArgument(
            f"--console-trusted-proxies {proxy[:60]!r} is not the address or the network of a proxy",
            hint="Write such as 10.0.0.5,10.1.0.0/16. Any client could name an address of its choice if all addresses were trusted.",
        )


def _check_url(url: str) -> None:
    """Raises InvalidArgument for a URL that cannot be the console's."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.rstrip("/") or parts.query or parts.fragment:
        raise InvalidArgument(
            f"--console-url {url[:100]!r} is not the address of a console",
            hint="Write it as https://lake.example or https://lake.example:8443. The path is always /ui.",
        )
