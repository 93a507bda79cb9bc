"""dbt's own Python environment, `.venv/dbt`: dbt needs an older protobuf than Lakeward.

`make test-setup` makes it, or else the first test that needs it.
"""

from __future__ import annotations

from pathlib import Path

from support.readers.environment import Environment
from support.repository import ROOT

DBT = Environment(ROOT / ".venv" / "dbt", Path(__file__).with_name("requirements.lock"), "dbt")

if __name__ == "__main__":
    DBT.make()
