"""The public client is small: it loads nothing of the coordinator, of clusters and lakes, and none of their libraries."""

from __future__ import annotations

import json
import subprocess
import sys

FORBIDDEN = (
    "tiering.coordinator",
    "tiering.cluster",
    "tiering.lake",
    "tiering.round",
    "tiering.validate",
    "tiering.cli",
    "sys_tables",
    "sqlalchemy",
    "duckdb",
    "pyiceberg",
    "pyspark",
)


def test_the_client_loads_no_implementation() -> None:
    program = "import json, sys, tiering.client; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert "tiering.client" in loaded
    assert [name for name in loaded if any(name == module or name.startswith(f"{module}.") for module in FORBIDDEN)] == []
