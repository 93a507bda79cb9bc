"""Runs the console in the process of a service, and tells how browsers and the console's own calls reach it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tiering.access.client_access import ClientAccess, access_from_environment
from tiering.access.loopback import LOCALHOST, is_loopback, stays_on_this_machine
from tiering.cli.processes.service_access import tierer_uri
from tiering.cli.terminal.access_options import AccessOptions
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.errors import SetupError
from tiering.wire.channel import host_and_port
from tiering.wire.security.server_tls import certificate_names, server_context

if TYPE_CHECKING:
    from sys_tables.console.service.application import ServiceConsole
    from sys_tables.console.service.identity_provider import ProviderClient

_TAKEN = (
    "If another service runs on this machine, choose another --port; the console then has the port 10 above. "
    "Or choose --console-port: 0 picks a free port, and none turns the console off."
)


@contextmanager
def service_console(settings: ServiceOptions) -> Iterator[ServiceConsole | None]:
    """Serves the console of a service while the context is open, and prints its address. Yields None without a console.

    Until `lead` or `stand_by` it shows that the service starts. Raises SetupError for a port or files of TLS that cannot be used.
    """
    port, tls = settings.console.bound_port, settings.access.tls
    if port is None:
        yield None
        return
    # Imported here: a service without a console does not need them.
    from sys_tables.console.service.application import ServiceConsole
    from sys_tables.console.serving import ServingThread, bind

    context = None if tls is None else server_context(tls)
    listening = bind(port, settings.host, _TAKEN)
    console = ServiceConsole(_address(settings, listening), listening.getsockname()[1], _hosts(settings), _provider_client(settings))
    serving = ServingThread(console, listening, context, settings.console.proxies)
    try:
        yield console
    finally:
        console.close()
        serving.close()


def print_address(console: ServiceConsole | None) -> None:
    """Prints the line with the address of a console, before the line that says what the service does: a start that fails prints none."""
    if console is not None:
        print(f"lakeward console: {console.url}", flush=True)


def _provider_client(settings: ServiceOptions) -> ProviderClient | None:
    from sys_tables.console.service.identity_provider import ProviderClient

    oidc, console = settings.access.oidc, settings.console
    if oidc is None or console.oidc_client is None:
        return None
    return ProviderClient(oidc, console.oidc_client, console.oidc_scope, console.oidc_secret_file)


def console_access(access: AccessOptions) -> ClientAccess:
    """Returns the files of TLS with which the console connects to its own service. It trusts the service's certificate."""
    shown = access_from_environment()
    if access.tls is None:
        return ClientAccess()
    return ClientAccess(tls_ca=shown.tls_ca or access.tls.certificate, tls_cert=shown.tls_cert, tls_key=shown.tls_key)


def console_uri(access: AccessOptions, uri: str) -> str:
    """Returns the uri at which the console connects to its own service."""
    return tierer_uri(access, uri)


def _address(settings: ServiceOptions, listening: socket.socket) -> str:
    """Returns the URL of the console without a path: the one of the option, or else with a name that the certificate has."""
    if settings.console.url is not None:
        return settings.console.url.rstrip("/")
    scheme = "http" if settings.access.tls is None else "https"
    host = settings.host
    if settings.access.tls is not None and (names := _names(settings)) and host not in names:
        host = names[0] if is_loopback(host) else names[-1]
    elif not is_loopback(host) and stays_on_this_machine(host):
        host = socket.gethostname()
    return f"{scheme}://{host_and_port(host, listening.getsockname()[1])}"


def _hosts(settings: ServiceOptions) -> list[str]:
    """Returns the names under which browsers may ask. A service without TLS in a network is reached by names that it does not know."""
    named = [] if settings.console.url is None else [str(urlsplit(settings.console.url).hostname)]
    if settings.access.tls is None and not is_loopback(settings.host):
        return ["*"]
    return [*named, settings.host.strip("[]"), LOCALHOST, "localhost", *_names(settings)]


def _names(settings: ServiceOptions) -> list[str]:
    """Returns the names in the certificate: addresses, then names of hosts. It has none without TLS."""
    return [] if settings.access.tls is None else certificate_names(settings.access.tls)


def check_console_access(settings: ServiceOptions) -> None:
    """Raises SetupError if the console could not connect to its own service."""
    tls, shown = settings.access.tls, access_from_environment()
    if settings.console.bound_port is not None and tls is not None and tls.client_ca is not None and shown.tls_cert is None:
        raise SetupError(
            "with --client-ca, the console needs a certificate of its own to call the service",
            hint="Set LAKEWARD_TLS_CERT and LAKEWARD_TLS_KEY to the paths of a certificate and its key, or give --console-port none.",
        )
