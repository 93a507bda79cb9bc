"""The Python environments of Airflow and of Dagster, `.venv/airflow` and `.venv/dagster`, in which the tests run the examples.

Each has what the Python client needs beside the tool; Lakeward itself is on the path. `make test-setup` makes them, or else the first test
that needs one.
"""

from __future__ import annotations

from pathlib import Path

from support.readers.environment import Environment
from support.repository import ROOT

_HERE = Path(__file__).parent

AIRFLOW = Environment(ROOT / ".venv" / "airflow", _HERE / "airflow" / "requirements.lock", "Airflow")
DAGSTER = Environment(ROOT / ".venv" / "dagster", _HERE / "dagster" / "requirements.lock", "Dagster")

if __name__ == "__main__":
    AIRFLOW.make()
    DAGSTER.make()
