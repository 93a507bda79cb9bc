"""Work in a child process, which is killed if the caller of the procedure disconnects."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tiering.coordinator.call_support.parts import CallParts, Started
from tiering.procedures.base import Pool

ResultT = TypeVar("ResultT")


async def in_child(parts: CallParts, work: Callable[[Started], ResultT]) -> ResultT:
    """Returns the result of `work`, which blocks, and passes its child process to the callback. Raises the errors of `work`."""
    children: list[subprocess.Popen[str]] = []
    disconnected = threading.Event()

    def started(child: subprocess.Popen[str]) -> None:
        children.append(child)
        if disconnected.is_set():  # the caller disconnected while the child started
            child.kill()

    running = parts.threads.run(Pool.VALIDATION, partial(work, started))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        disconnected.set()
        for child in children:
            child.kill()
        await asyncio.wait([running])
        raise
