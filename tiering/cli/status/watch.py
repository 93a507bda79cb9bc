"""`lakeward status --watch`: refreshes the status, as one screen redrawn in place on a terminal, and as one block per refresh elsewhere.

If the service stops answering, the last answer stays with the reason, until the service answers again.
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
    """One run of the command. `look` asks the service. `pause` waits for the next refresh and may raise KeyboardInterrupt."""

    look: Look
    uri: str
    interval_seconds: float
    pause: Callable[[float], object] = threading.Event().wait
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def on_terminal(self, console: Console) -> None:
        """Draws on a terminal until Ctrl-C; the last screen stays. Raises ServiceUnreachable if no service answers at the start."""
        screen = StatusScreen(self.look(), self.uri, self.now())
        try:
            # Redrawn only after each refresh: a thread of rich would redraw an unchanged screen.
            with Live(screen, console=console, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    self.pause(self.interval_seconds)
                    screen = self._again(screen)
                    live.update(screen, refresh=True)
        except KeyboardInterrupt:
            return

    def elsewhere(self, show: Callable[[Sequence[TableStatus]], None], complain: Callable[[str], None]) -> None:
        """Shows every answer until Ctrl-C or a broken pipe, and reports every failed refresh to `complain`."""
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
