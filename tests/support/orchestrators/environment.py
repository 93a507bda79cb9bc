"""The Python environments of Airflow and of Dagster, `.venv/airflow` and `.venv/dagster`, in which the tests run the examples.

Each has what the Python client needs beside the tool; Lakeward itself is on the path. `make test-setup` makes them, or else the first test
that needs one.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.readers.environment import Environment
from support.repository import ROOT

_HERE = Path(__file__).parent

AIRFLOW = Environment(ROOT / ".venv" / "airflow", _HERE / "airflow" / "requirements.lock", "Airflow")
DAGSTER = Environment(ROOT / ".venv" / "dagster", _HERE / "dagster" / "requirements.lock", "Dagster")

PATIENCE_S = 600
"""All runs of a tool take some 20 s, but machines are busy."""


def answer_of(tool: Environment, program: Path, home: Path, question: Any = None, path: Iterable[Path] = (), **variables: str) -> Any:
    """Runs a program in a tool's environment, in the folder `home`. Returns the JSON of the last line that it prints.

    `question`: its standard input, as JSON. `path`: folders of modules, beside this project.
    """
    tool.make()
    ended = subprocess.run(
        [tool.python, "-P", program],
        cwd=home,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path))), **variables},
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6_000:]
    return json.loads(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    AIRFLOW.make()
    DAGSTER.make()
