"""`lakeward demo --fluss`: a person's first look at a real Fluss cluster, after which nothing is left."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from support.running.processes import Process, wait_for

WHOLE_SECONDS = 300
"""For two busy cores; it takes about a minute on free ones."""


@pytest.mark.soak
def test_the_demo_holds_and_leaves_nothing(tmp_path: Path) -> None:
    demo = _started(tmp_path)
    assert demo.wait_ended(WHOLE_SECONDS) == 0, demo.output()
    output = demo.output()
    assert "Everything held" in output
    assert "nyc.flights: 336,776 rows read from its file and not deleted, 336,776 in the lake: equal" in output
    assert "planes get their manufacturer's new name" in output
    assert re.search(r"│ 336776 +│ 12 +│", output), "the rows of December, before a round tiers them"
    assert output.count("| SUCCEEDED") + output.count("| EMPTY") == 4
    _assert_nothing_is_left(tmp_path)


@pytest.mark.soak
def test_ctrl_c_ends_all_that_the_demo_began(tmp_path: Path) -> None:
    demo = _started(tmp_path)
    wait_for("Fluss is up", lambda: "Apache Fluss is ready" in demo.output() or demo.popen.poll() is not None, WHOLE_SECONDS)
    demo.send(signal.SIGINT)
    assert demo.wait_ended() == 128 + signal.SIGINT, demo.output()
    _assert_nothing_is_left(tmp_path)


def _started(folder: Path) -> Process:
    temporary = folder / "tmp"
    temporary.mkdir()
    return Process("demo", "--fluss", log=folder / "demo.log", env={"TMPDIR": str(temporary)})


def _assert_nothing_is_left(folder: Path) -> None:
    """Neither files nor processes: each of these had the temporary folder in its environment. A JVM of Spark ends after its Python."""
    temporary = str(folder / "tmp").encode()
    wait_for("no process is left", lambda: not any(temporary in _environment(process) for process in Path("/proc").glob("[0-9]*")))
    assert list((folder / "tmp").iterdir()) == []


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # another user's, or gone
        return b""
