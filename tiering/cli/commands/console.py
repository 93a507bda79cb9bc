"""`lakeward console`: serves pages about the service on this machine, for the user who runs the command."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port of the pages; 0 picks a free port.")] = DEFAULT_PORT,
    print_link: Annotated[bool, typer.Option("--print", help="Only print the sign-in link, and open no browser.")] = False,
) -> None:
    """Show the service in a browser: tables by state and promise, and forms for what to do. Runs until Ctrl-C.

    The pages show what SQL shows the same user. The link signs one browser in. It works once, and for five minutes.

    Example: lakeward console --print
    """
    from sys_tables.console.app import console_app
    from sys_tables.console.serving import HOST, bind, serve
    from sys_tables.console.signing_in import SignInCode

    with SystemCatalog(uri) as catalog:
        catalog.describe()  # raises the error of a service that does not answer before a browser opens
        with bind(port) as listening:
            used_port = listening.getsockname()[1]
            code = SignInCode()
            link = f"http://{HOST}:{used_port}/sign-in/{code.new()}"
            print(link, flush=True)
            message_console().print("The link works once, and for five minutes. Ctrl-C ends the console.")
            with suppress(KeyboardInterrupt), _opened(None if print_link else link, used_port):
                serve(console_app(catalog, code, used_port), listening)


@contextmanager
def _opened(link: str | None, port: int) -> Iterator[None]:
    """Opens a browser at the link. The link is in a private file, because other users see the arguments of a process."""
    if link is None:
        yield
        return
    file = user_folder() / "console" / f"{port}.html"
    _write_redirect(file, link)
    try:
        webbrowser.open(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)


def _write_redirect(file: Path, link: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, f'<!doctype html><meta http-equiv="refresh" content="0; url={link}"><a href="{link}">Open the console</a>\n')
