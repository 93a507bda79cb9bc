"""The state store's database is gone for a minute under load: `PYTHONPATH=.:tests python -m faults.database --away-seconds 60`.

Prints how the calls of that minute ended, and how much was written and is in the lake.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from faults.database.outage import TABLES, be_without_database

from support.running.postgresql import postgresql_server

MINUTE_SECONDS = 60.0
PREFIX = "lakeward-outage-"


def main() -> int:
    """Returns the exit status: 1 if the story failed; its folder is kept then."""
    parser = argparse.ArgumentParser(prog="python -m faults.database")
    parser.add_argument("--away-seconds", type=float, default=MINUTE_SECONDS)
    options = parser.parse_args()
    started, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with tempfile.TemporaryDirectory(prefix=f"{PREFIX}postgresql-") as server, postgresql_server(Path(server) / "server") as database:
            service = be_without_database(folder, database, options.away_seconds)
    except Exception:  # any end but a good one is a defect
        print(f"{traceback.format_exc()}in {folder}\n1 outage, {time.monotonic() - started:.0f} s, 1 failed")
        return 1
    shutil.rmtree(folder)
    for refusal, count in service.refusals.most_common():
        print(f"{count:>6}  {refusal}")
    rows = service.written.total()
    print(f"1 outage of {options.away_seconds:g} s, {rows:,} rows in {len(TABLES)} tables, {time.monotonic() - started:.0f} s, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
