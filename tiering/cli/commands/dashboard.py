"""`lakeward dashboard`: the Grafana dashboard of this version's metrics."""

from __future__ import annotations

import json

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("dashboard")(dashboard)


def dashboard() -> None:
    """Print a dashboard for Grafana, made from the metrics of this version.

    Example: lakeward dashboard > lakeward.json
    """
    # Here and not above: the other commands, and their help, do without.
    from tiering.telemetry import dashboard as grafana

    print(json.dumps(grafana.dashboard(), indent=2))
