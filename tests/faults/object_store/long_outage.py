"""S3 that answers 503 for a whole minute while the log goes on: `PYTHONPATH=.:tests python -m faults.object_store.long_outage`.

For each kind of lake table: rounds, the outage, and then everything must be in the lake once. The tests of this folder end their outage
when both tables have an error; this one lasts as long as it is told. Folders of kinds that failed are kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from support.faulty.deployment import ACCOUNTS, ORDERS
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.object_store.faulty_http import Fault
from support.object_store.s3_server import S3Server, s3proxy
from support.object_store.scene import scene_of
from support.running.processes import wait_for

PREFIX = "lakeward-outage-"
SECONDS_BETWEEN_WRITES = 5


def survive(kind: LakeKind, store: S3Server, folder: Path, seconds: float) -> int:
    """How many requests were answered 503. Raises AssertionError if something was lost, or a table does not go on."""
    with scene_of(kind, store, folder) as scene:
        ours = scene.deployment
        ours.start_inline_tierer("only")
        ours.write()
        ours.settle()
        rule = scene.store.add(Fault.ERROR_INSTEAD, status=503)
        ends, pause = time.monotonic() + seconds, threading.Event()
        while (left := ends - time.monotonic()) > 0:
            ours.write()
            pause.wait(min(SECONDS_BETWEEN_WRITES, left))
        for path in (ORDERS, ACCOUNTS):
            wait_for(f"{path} has an error", lambda path=path: ours.status(path).error_class == "LakeUnavailable")  # type: ignore[misc]
        scene.store.heal()
        ours.settle()
        for path in (ORDERS, ACCOUNTS):
            ours.validate(path)
        ours.assert_no_secret_left()
        return rule.hits


def main() -> int:
    """Returns the exit status: 1 if a kind failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.object_store.long_outage")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kind", choices=[kind.name for kind in LAKE_KINDS], help="This one alone.")
    options = parser.parse_args()
    kinds = [kind for kind in LAKE_KINDS if options.kind in (None, kind.name)]
    started, failed = time.monotonic(), 0
    of_store = Path(tempfile.mkdtemp(prefix=PREFIX))
    with s3proxy(of_store) as store:
        for kind in kinds:
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind.name}-"))
            try:
                answers = survive(kind, store, folder, options.seconds)
            except Exception:  # any end but a good one is a defect
                failed += 1
                print(f"{kind.name}: {traceback.format_exc()}in {folder}", flush=True)
                continue
            print(f"{kind.name}: 503 for {options.seconds:.0f} s, {answers} answers", flush=True)
            shutil.rmtree(folder)
    shutil.rmtree(of_store)
    print(f"{len(kinds)} kinds, 503 for {options.seconds:.0f} s each, {time.monotonic() - started:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
