"""`lakeward alerts`: alert rules for Prometheus on the metrics of this version."""

from __future__ import annotations


def alerts() -> None:
    """Print alert rules for Prometheus. Each rule names the SQL statement that shows more.

    Example: lakeward alerts > lakeward-rules.yml
    """
    from tiering.telemetry.alerts import rules

    print(rules(), end="")
