"""The libraries of Superset in a Python environment of their own, `.venv/superset`: they need an older SQLAlchemy than Lakeward.

`make test-setup` makes it, or else the first test that needs it.
"""

from __future__ import annotations

from pathlib import Path

from support.readers.environment import Environment
from support.repository import ROOT

SUPERSET = Environment(ROOT / ".venv" / "superset", Path(__file__).with_name("requirements.lock"), "the libraries of Superset")

if __name__ == "__main__":
    SUPERSET.make()
