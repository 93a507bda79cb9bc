"""Processes that commit to the table sales.orders of one hadoop catalog at the same time."""

from __future__ import annotations

import os
import subprocess
import sys

from support.repository import ROOT

_COMMITTER = """
import sys
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from tiering.lake.iceberg.catalogs.opening import open_catalog

warehouse, name, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
catalog = open_catalog({"type": "hadoop", "warehouse": warehouse})
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < commits:
    table = catalog.load_table(("sales", "orders"))
    update = SetPropertiesUpdate(updates={f"{name}-{done}": ""})
    try:
        catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (update,))
        done += 1
    except CommitFailedException:
        pass
"""


def race(warehouse: str, committers: int, commits: int) -> set[str]:
    """Lets each make so many commits; the names of the properties that these set, all of which the table must have then."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _COMMITTER, warehouse, f"c{number}", str(commits)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(committers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait(120) for process in processes] == [0] * committers
    for process in processes:
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]
    return {f"c{number}-{commit}" for number in range(committers) for commit in range(commits)}
