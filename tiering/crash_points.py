"""Named places at which a test may kill or stop the process (DESIGN 12).

Armed by one environment variable: `LAKEWARD_CRASH_POINT=name` kills the process with SIGKILL when it reaches
the point; `LAKEWARD_CRASH_POINT=name:stop` stops it with SIGSTOP until somebody sends SIGCONT. Unarmed they cost
one dictionary look-up.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "LAKEWARD_CRASH_POINT"

AFTER_FILES = "after_files"
BEFORE_FENCE = "before_fence"
AFTER_FENCE = "after_fence"
AFTER_LAKE_COMMIT = "after_lake_commit"
AFTER_ACK = "after_ack"
ALL = (AFTER_FILES, BEFORE_FENCE, AFTER_FENCE, AFTER_LAKE_COMMIT, AFTER_ACK)


def reach(point: str) -> None:
    """Says that `point` was reached; does not return if it is armed to kill."""
    name, _, action = os.environ.get(VARIABLE, "").partition(":")
    if name != point:
        return
    del os.environ[VARIABLE]
    os.kill(os.getpid(), signal.SIGSTOP if action == "stop" else signal.SIGKILL)
