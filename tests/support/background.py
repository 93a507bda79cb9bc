"""What a coordinator does in the background, done at once and in a known order: nothing runs by itself in a test."""

from __future__ import annotations

from tiering.coordinator.server.coordinator import Coordinator


def tick(coordinator: Coordinator) -> None:
    """Runs each background loop once."""
    coordinator.discovery.run()
    coordinator.commits.look_at_heads()
    if coordinator.relay is not None:
        coordinator.relay.run_quietly()
    coordinator.advance()
    coordinator.table_records.prune()
