"""What every log line about a round carries, bound once where its work begins: `round_id`, `table` and `tiering_epoch`, as SQL names them.

The binding belongs to a thread or an asyncio task and what it calls; `carried` takes it along into a pool of threads.
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
    """Binds a round to the log lines of what is inside."""
    return bound_contextvars(**_names(round_id, table, tiering_epoch))


def call_is_about(round_id: str, table: object | None, tiering_epoch: int) -> None:
    """Binds a round to the log lines of the rest of this asyncio task, which is one call: its end is logged by others."""
    bind_contextvars(**_names(round_id, table, tiering_epoch))


def carried(work: Callable[..., Result]) -> Callable[..., Result]:
    """The work, for another thread, with what is bound here now. It may run once."""
    return partial(contextvars.copy_context().run, work)


def _names(round_id: str, table: object | None, tiering_epoch: int) -> dict[str, object]:
    known = {} if table is None else {"table": str(table)}
    return {"round_id": round_id, **known, "tiering_epoch": tiering_epoch}
