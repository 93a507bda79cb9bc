"""Writes a file for a user of a command: complete or not at all, private, and never over another file without being asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated
from uuid import uuid4

import typer

from tiering.errors import InvalidArgument, SetupError

ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def write_new_file(file: Path, write: Callable[[IO[bytes]], object], *, force: bool) -> None:
    """Writes a file that gets its name when it is complete. Raises InvalidArgument if it exists, SetupError if it cannot be written."""
    if file.exists() and not force:
        raise _exists(file)
    beside = file.with_name(f".{file.name}.{uuid4().hex}.tmp")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as sink:
            write(sink)
            sink.flush()
            os.fsync(sink.fileno())
        _publish(beside, file, force=force)
    except OSError as error:
        raise SetupError(
            f"cannot write {file}: {error.strerror or error}", hint="Name a file in a folder that this user can write to."
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _publish(beside: Path, file: Path, *, force: bool) -> None:
    if force:
        beside.replace(file)
        return
    try:
        file.hardlink_to(beside)  # unlike a rename, a link never replaces a file that was created meanwhile
    except FileExistsError as error:
        raise _exists(file) from error
    except OSError:  # the file system has no links
        if file.exists():
            raise _exists(file) from None
        beside.rename(file)


def _exists(file: Path) -> InvalidArgument:
    return InvalidArgument(f"the file {file} already exists", hint="Name another file, or overwrite it with --force.")
