"""Binds `round_id`, `table` and `tiering_epoch`, as SQL names them, to every log line about a round, at the place where its work begins.

The binding is valid for a thread or an asyncio task and the functions that it calls. `carried` passes it to a thread of a pool.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from structlog.contextvars import bind_contextvars, bound_contextvars

Result = TypeVar("Result")


def round_lines(round_id: str, table: object, tiering_epoch: int) -> AbstractContextManager[object]:
    """Returns a context manager that binds a round to the log lines inside it."""
    return bound_contextvars(**_names(round_id, table, tiering_epoch))


def call_is_about(round_id: str, table: object | None, tiering_epoch: int) -> None:
    """Binds a round to the later log lines of this asyncio task, which is one call. The server logs the end of the call."""
    bind_contextvars(**_names(round_id, table, tiering_epoch))


def carried(work: Callable[..., Result]) -> Callable[..., Result]:
    """Returns `work` with the current binding, to run once in another thread."""
    return partial(contextvars.copy_context().run, work)


def _names(round_id: str, table: object | None, tiering_epoch: int) -> dict[str, object]:
    table_name = {} if table is None else {"table": str(table)}
    return {"round_id": round_id, **table_name, "tiering_epoch": tiering_epoch}
