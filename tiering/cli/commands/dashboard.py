"""`lakeward dashboard`: a Grafana dashboard for the metrics of this version."""

from __future__ import annotations

import json


def dashboard() -> None:
    """Print a Grafana dashboard for the metrics of this version.

    Example: lakeward dashboard > lakeward.json
    """
    from tiering.telemetry import dashboard as grafana

    print(json.dumps(grafana.dashboard(), indent=2))
