"""`make setup` and `make test-setup`: what each does, and twice at once, where the second waits and then finds everything done."""

from __future__ import annotations

import fcntl
import re
import subprocess
from pathlib import Path

import pytest

from support.repository import ROOT
from support.running.processes import Process, wait_for


def test_a_second_setup_waits_for_the_first(tmp_path: Path) -> None:
    with (ROOT / "setup.sh").open() as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = Process(log=tmp_path / "setup.log", program=("./setup.sh",), cwd=ROOT)
        try:
            wait_for("the second says that it waits", lambda: "waiting for another setup in this folder" in second.output())
            assert second.popen.poll() is None
            fcntl.flock(first, fcntl.LOCK_UN)
            assert second.wait_ended(240) == 0, second.output()
        finally:
            second.close()
    assert "installing" not in second.output()


def test_no_run_of_maven_goes_without_strict_checksums() -> None:
    """`-C`: a download whose checksum is wrong or missing ends the run, where Maven would else warn."""
    files = [ROOT / name for name in ("setup.sh", "Makefile", "hatch_build.py", "tiering/cli/maven_jars.py")]
    starts = [line for file in files for line in file.read_text().splitlines() if re.search(r"mvn -|\[maven,|options = ", line)]
    assert len(starts) >= 4
    assert [line for line in starts if "-C" not in line and "*options" not in line] == []


@pytest.mark.parametrize(
    ("target", "command"),
    [(target, "./setup.sh") for target in ("setup", "demo", "fluss-demo", "check", "test")]
    + [(target, "./setup.sh all-tests") for target in ("test-all", "unit", "integration", "plugin-test")],
)
def test_what_test_all_alone_needs_is_set_up_for_it_alone(target: str, command: str) -> None:
    listed = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in listed if "setup.sh" in line] == [command]


def test_a_kept_demo_is_an_option_of_the_demo() -> None:
    lines = [
        subprocess.run(["make", "--no-print-directory", "-n", "demo", *keep], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for keep in ((), ("KEEP=1",))
    ]
    assert [
        line.splitlines()[-1].rstrip().endswith(end) for line, end in zip(lines, ("lakeward demo", "lakeward demo --keep"), strict=True)
    ] == [True] * 2


def test_another_word_for_the_setup_is_refused() -> None:
    ended = subprocess.run(["./setup.sh", "test"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "setup: usage: ./setup.sh [all-tests]\n")
