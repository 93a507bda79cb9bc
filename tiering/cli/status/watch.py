"""`lakeward status --watch`: looks again and again. On a terminal one screen that is redrawn in place, elsewhere a block a look.

A service that goes away is not the end: the last answer stays, with why it is old, until the service is back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from tiering.cli.status.view import StatusScreen
from tiering.errors import ServiceBusy, ServiceUnreachable
from tiering.model.status import TableStatus

Look = Callable[[], Sequence[TableStatus]]


@dataclass
class Watch:
    """One watch. `look` asks the service; `pause` waits for the next look and may raise KeyboardInterrupt."""

    look: Look
    uri: str
    interval_seconds: float
    pause: Callable[[float], object] = threading.Event().wait
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def on_terminal(self, console: Console) -> None:
        """Until Ctrl-C; the last screen stays. Raises ServiceUnreachable if nobody answers the first time."""
        screen = StatusScreen(self.look(), self.uri, self.now())
        try:
            # Drawn by us alone, after each look: a thread of rich's would redraw what has not changed.
            with Live(screen, console=console, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    self.pause(self.interval_seconds)
                    screen = self._again(screen)
                    live.update(screen, refresh=True)
        except KeyboardInterrupt:
            return

    def elsewhere(self, show: Callable[[Sequence[TableStatus]], None], complain: Callable[[str], None]) -> None:
        """Until Ctrl-C or a broken pipe: every answer is shown, every look without one complained of."""
        show(self.look())
        try:
            while True:
                self.pause(self.interval_seconds)
                try:
                    statuses = self.look()
                except (ServiceUnreachable, ServiceBusy) as error:
                    complain(error.message)
                else:
                    show(statuses)
        except KeyboardInterrupt:
            return

    def _again(self, screen: StatusScreen) -> StatusScreen:
        try:
            return StatusScreen(self.look(), self.uri, self.now())
        except (ServiceUnreachable, ServiceBusy) as error:
            return StatusScreen(screen.statuses, self.uri, screen.looked_at, f"{self.now():%H:%M:%S} {error.message}")
