"""Logs of child processes move to numbered files while the child goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiering.files.rotated_log import rotate


def test_a_small_log_and_a_missing_one_stay(tmp_path: Path) -> None:
    log = tmp_path / "tierer.log"
    assert not rotate(log, 5)
    log.write_text("four")
    assert not rotate(log, 5)
    assert [file.name for file in tmp_path.iterdir()] == ["tierer.log"]


def test_the_newest_lines_are_in_the_first_file_and_the_oldest_go(tmp_path: Path) -> None:
    log = tmp_path / "tierer.log"
    for number in range(5):
        log.write_text(f"line {number}")
        assert rotate(log, 5, kept=3)
    files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert files == {"tierer.log": "", "tierer.log.1": "line 4", "tierer.log.2": "line 3", "tierer.log.3": "line 2"}


def test_its_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    log = tmp_path / "tierer.log"
    log.write_text("a line")
    rotate(log, 5)
    assert (tmp_path / "tierer.log.1").stat().st_mode & 0o777 == 0o600


def test_a_process_that_appends_goes_on_in_the_file_it_holds(tmp_path: Path) -> None:
    log = tmp_path / "tierer.log"
    writer = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)\n    print('ok', file=sys.stderr, flush=True)"
    with log.open("ab") as output:
        child = subprocess.Popen([sys.executable, "-c", writer], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stderr is not None
    for text in ("before\n", "after\n"):
        child.stdin.write(text)
        child.stdin.flush()
        child.stderr.readline()
        if text == "before\n":
            assert rotate(log, 5)
    child.communicate()
    assert log.read_text() == "after\n"
    assert (tmp_path / "tierer.log.1").read_text() == "before\n"


def test_what_an_attempt_that_died_left_is_no_obstacle(tmp_path: Path) -> None:
    log = tmp_path / "tierer.log"
    log.write_text("a line")
    (tmp_path / "tierer.log.new").write_text("half")
    assert rotate(log, 5)
    assert (tmp_path / "tierer.log.1").read_text() == "a line"


def test_a_log_that_cannot_be_copied_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "tierer.log"
    log.write_text("a line")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", no_space)
    with pytest.raises(OSError, match="space"):
        rotate(log, 5)
    assert log.read_text() == "a line"
