"""Errors of tasks in this process. Airflow loads a file with DAGs as a module without a name, so that this cannot be in scenarios.py."""

from __future__ import annotations

from typing import Any

ERRORS: list[tuple[str, str]] = []
"""Task and text of each error."""


def note(context: Any) -> None:
    """Keeps the error: a callback of a task."""
    ERRORS.append((context["ti"].task_id, str(context["exception"])))
