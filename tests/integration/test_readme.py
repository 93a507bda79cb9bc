"""A new user's first hour: the commands of README.md as they stand there, one block after the other, in one folder that was empty."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repository import ROOT
from support.running.processes import Process
from tiering.cli.fluss_server.held_ports import HeldPort

WHOLE_SECONDS = 840
"""For two busy cores; it takes two minutes on free ones."""
PROGRAMS = Path(sys.executable).parent
KEPT_DEMO = ROOT / "tests" / "support" / "console" / "kept_demo.py"
MAKE = f"""#!/bin/sh
# The recipes of `make` without the set-up, which was done; the tests do not run themselves. The demo is that of `make demo KEEP=1`.
case "$1" in
  demo) exec python '{KEPT_DEMO}' ;;
  test | fluss-demo) ;;
  *) exit 2 ;;
esac
"""


def blocks() -> list[tuple[str, str]]:
    """Language and text of each block of README.md that is for a shell or for Spark SQL."""
    return re.findall(r"^```(sh|sql)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def script() -> str:
    """All blocks as one shell session that ends at the first error. The statements of a block of SQL are typed to the program before it."""
    lines = ["set -e"]
    for number, (language, text) in enumerate(blocks(), 1):
        if language == "sh":
            lines += [f"echo '== block {number}'", text.rstrip("\n")]
        else:
            lines[-1] += f" << 'STATEMENTS'\n{text}STATEMENTS"
    return "\n".join([*lines, "echo '== the end'", ""])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Empty but for what `make setup` leaves there; a service that runs on its data folder afterwards is stopped."""
    folder = tmp_path / "first hour"
    folder.mkdir()
    (folder / ".venv").symlink_to(PROGRAMS.parent)
    yield folder
    if (folder / "lakeward-data" / "VERSION").exists():
        down = Process("down", "--data", str(folder / "lakeward-data"), log=tmp_path / "down.log")
        try:
            assert down.wait_ended() == 0, down.output()
        finally:
            down.close()


def test_the_blocks_of_the_readme_run_in_order_in_one_folder(folder: Path, tmp_path: Path) -> None:
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(MAKE)
    make.chmod(0o755)
    with HeldPort() as port:
        env = {
            "PATH": f"{make.parent}:{PROGRAMS}:/usr/local/bin:/usr/bin:/bin",
            "LAKEWARD_PORT": str(port.number),
            "LAKEWARD_URI": f"127.0.0.1:{port.number}",
        }
        session = Process("-c", script(), log=tmp_path / "session.log", env=env, program=("bash",), cwd=folder)
        try:
            assert session.wait_ended(WHOLE_SECONDS) == 0, session.output()[-8_000:]
        finally:
            session.close()
    printed = session.output()
    demo, tour = printed.split("== block 2\n")
    assert "Everything held" in demo
    assert re.search(r"The console is at http://\S+/ui: sign in with lakeward console --uri 127\.0\.0\.1:\d+\n", demo)
    assert "kept: [['Sign in'], ['Sign in']], True\n" in demo, "the console of the service that stays"
    assert "\nstopped\n" in demo, "the command that the demo prints stops the service"
    assert re.search(r"│ 336776 +│ 12 +│", demo), "the rows of December, before a round tiers them"
    assert re.search(r"flights +\|\d+ +\|", demo), "the health of its lake table"
    assert f"lakeward is ready: 127.0.0.1:{port.number}" in tour
    assert "travel.places: created, 2 rows appended" in tour
    assert re.search(r"travel\.places │ \S+ +│ (SUCCEEDED|EMPTY)", tour)  # a file gets the whole table
    assert re.search(r"travel\s+places\s+Scheduled", tour)
    assert re.search(r"1\s+Oslo", tour)
    assert "has ended" in tour
    assert printed.endswith("== the end\n")
