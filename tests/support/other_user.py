"""This process as another user, for whom the rights of files count: root reads whatever they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OTHER_USER_ID = 65_534


@contextmanager
def acting_as_another_user() -> Iterator[None]:
    """Makes root's process act as another user. Any other user stays as it is."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(OTHER_USER_ID)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def change_rights(file: Path, mode: int) -> None:
    """Gives the file these rights, at another moment than the last change: the clock of a file system has ticks."""
    before = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns == before:
        file.chmod(mode)
