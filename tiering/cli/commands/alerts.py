"""`lakeward alerts`: alert rules for Prometheus about this version's metrics."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("alerts")(alerts)


def alerts() -> None:
    """Print alert rules for Prometheus; each names the statement that says more.

    Example: lakeward alerts > lakeward-rules.yml
    """
    # Here and not above: the other commands, and their help, do without.
    from tiering.telemetry.alerts import rules

    print(rules(), end="")
