"""`lakeward console`: serves pages about the service on this machine, for the user who runs the command."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from sys_tables.catalog_client import SystemCatalog
from tiering.access.client_access import user_folder
from tiering.access.tokens import write_private
from tiering.cli.terminal.consoles import message_console
from tiering.cli.terminal.options import DEFAULT_URI, UriOption

DEFAULT_PORT = 7717


def console(
    uri: UriOption = DEFAULT_URI,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port for a service without a console; 0 picks a free port.")
    ] = DEFAULT_PORT,
    print_link: Annotated[bool, typer.Option("--print", help="Only print the sign-in link, and open no browser.")] = False,
) -> None:
    """Show the service in a browser: tables by state and promise, and forms for what to do.

    It opens a link to the console of the service. For a service without one, it serves the pages itself until Ctrl-C. The pages show what
    SQL shows the same user. The link leads to a button that signs one browser in. It works once, and for five minutes.

    Example: lakeward console --print
    """
    with SystemCatalog(uri) as catalog:
        link = catalog.console_link()
        if link is None:
            _serve(catalog, port, print_link)
            return
    print(link, flush=True)
    message_console().print("The link works once, and for five minutes.")
    if not print_link:
        _open_browser(link, "service")  # its file stays, because the browser reads it after this command has ended


def _serve(catalog: SystemCatalog, port: int, print_link: bool) -> None:
    """Serves the pages with the token of this process, for a service without a console."""
    from sys_tables.console.app import console_app
    from sys_tables.console.serving import HOST, bind, serve
    from sys_tables.console.sign_in_pages import Site
    from sys_tables.console.signing_in import SignInCodes

    with bind(port) as listening:
        used_port = listening.getsockname()[1]
        codes = SignInCodes()
        link = f"http://{HOST}:{used_port}/sign-in/{codes.new()}"
        print(link, flush=True)
        message_console().print("The link works once, and for five minutes. Ctrl-C ends the console.")
        with suppress(KeyboardInterrupt), _opened(None if print_link else link, str(used_port)):
            serve(console_app(catalog, codes, Site(used_port)), listening)


@contextmanager
def _opened(link: str | None, name: str) -> Iterator[None]:
    """Opens a browser at the link, and removes the file with the link at the end of the context."""
    if link is None:
        yield
        return
    file = _open_browser(link, name)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _open_browser(link: str, name: str) -> Path:
    """Opens a browser at the link, which is in a private file, because other users see the arguments of a process. Returns the file."""
    file = user_folder() / "console" / f"{name}.html"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    address = escape(link)  # comes from the service
    write_private(file, f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open the console</a>\n')
    webbrowser.open(file.as_uri())
    return file
