"""The files of deploy/ are valid, and name commands, options and packages that there are."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from support.repository import ROOT
from tiering.cli.main import app

DEPLOY = ROOT / "deploy"
INSTALLED = "/opt/lakeward/bin/lakeward"
UNITS = sorted(DEPLOY.glob("*.service"), key=str)


def instructions() -> list[tuple[str, str]]:
    """Of the Containerfile: each with its lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines if line.strip()]


def assert_known(command: list[str]) -> None:
    """A command of ours, with options that it has."""
    options = {word for word in command[1:] if word.startswith("--")}
    shown = CliRunner().invoke(app, [command[0], "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert {option for option in options if option not in shown.output} == set()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze comes with systemd, which this machine lacks")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    copy = tmp_path / unit.name.replace("@", "@1")
    copy.write_text(text.replace(INSTALLED, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_start_what_there_is(unit: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *command = shlex.split(line)
    assert program == INSTALLED
    assert_known([word for word in command if not word.startswith("$")])


def test_the_image_is_made_of_what_there_is() -> None:
    done = instructions()
    assert {name for name, _ in done} <= {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    copied = [word for name, text in done if name == "COPY" for word in text.split()[:-1]]
    assert [word for word in copied if not word.startswith("dist/") and not (ROOT / word).is_file()] == []
    for script in [text for name, text in done if name == "RUN"]:
        subprocess.run(["bash", "-n", "-c", script], check=True)
    [start] = [text for name, text in done if name == "CMD"]
    assert_known(re.findall(r'"([^"]+)"', start))
    [fetched] = [text for name, text in done if name == "RUN" and text.startswith("lakeward ")]
    assert_known(fetched.split()[1:])


def test_the_image_pins_every_package_that_the_wheel_asks_for() -> None:
    [script] = [text for name, text in instructions() if name == "RUN" and "constraints.txt" in text]
    [pins] = re.findall(r"sed -n '[^']+'", script)
    [extras] = re.findall(r"\.whl\)\[([a-z,]+)\]", script)
    constraints = subprocess.run([*shlex.split(pins), str(ROOT / "requirements.lock")], check=True, capture_output=True, text=True).stdout
    pinned = {Requirement(line).name.lower() for line in constraints.splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [text for extra in extras.split(",") for text in project["optional-dependencies"][extra]]
    assert {Requirement(text).name.lower() for text in wanted} - pinned == set()
