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
from tiering.cli.maven_jars import jars_folder
from tiering.cli.spark.jars import SPARK_JARS

DEPLOY = ROOT / "deploy"
INSTALLED = "/opt/lakeward/bin/lakeward"
UNITS = sorted(DEPLOY.glob("*.service"), key=str)


def instructions() -> list[tuple[str, str]]:
    """Returns the instructions of the Containerfile, each with its lines joined."""
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


APT_GET = """#!/bin/sh
# Installs and purges nothing but Maven, whose place a copy from the jars of this machine takes.
for word; do package=$word; done
case "$1 $package" in
  "install maven") /bin/ln -s {maven} {programs}/mvn ;;
  "purge maven") /bin/rm {programs}/mvn ;;
esac
"""
MAVEN = """#!/bin/sh
# Copies what the project in this folder asks for, from the jars of this machine.
folder=$(/bin/sed -n 's/.*<outputDirectory>\\([^<]*\\)<.*/\\1/p' pom.xml)
/bin/grep -o '<artifactId>[^<]*</artifactId><version>[^<]*' pom.xml | /bin/sed 's/<artifactId>//; s/<.*>/-/' | while read -r name; do
  if [ -f "{jars}/$name.jar" ]; then /bin/cp "{jars}/$name.jar" "$folder"; fi
done
"""


def write_program(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def test_the_jars_are_fetched_by_root_with_the_programs_that_are_installed_by_then(tmp_path: Path) -> None:
    """The instruction is run as it stands, but for apt-get, Maven and rm; nothing else is on its path."""
    done = instructions()
    place, script = next((place, text) for place, (name, text) in enumerate(done) if name == "RUN" and "fetch-jars" in text)
    assert "USER" not in [name for name, _ in done[:place]]
    programs, fetched = tmp_path / "programs", tmp_path / "fetched"
    maven = write_program(tmp_path / "maven", MAVEN.format(jars=jars_folder({})))
    write_program(programs / "apt-get", APT_GET.format(programs=programs, maven=maven))
    write_program(programs / "rm", f'#!/bin/sh\necho "$@" >> {tmp_path}/removed\n')
    own_script = script.replace(INSTALLED, str(Path(sys.executable).parent / "lakeward"))
    assert own_script != script

    environment = {"PATH": str(programs), "LAKEWARD_JARS": str(fetched), "HOME": str(tmp_path)}
    ended = subprocess.run(["/bin/sh", "-ec", own_script], env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {file.name for file in fetched.iterdir()} == {jar.file_name for jar in SPARK_JARS}
    assert not (programs / "mvn").exists()
    assert "/root/.m2" in (tmp_path / "removed").read_text()
    assert_known(re.findall(r"lakeward (fetch-jars[^&]*)", script)[0].split())


def test_the_image_has_no_package_whose_hash_is_not_in_the_lock() -> None:
    """The build compares downloads with the hashes of the lock, and installs only these files."""
    commands = [shlex.split(command) for name, text in instructions() if name == "RUN" for command in text.split("&&")]
    installs = [command for command in commands if command[0].endswith("/bin/pip")]
    downloads = [command for command in installs if command[1] == "download"]
    assert [("--require-hashes" in command, command[-1]) for command in downloads] == [(True, "/tmp/requirements.lock")]
    [packages] = [command[command.index("--dest") + 1] for command in downloads]
    others = [command for command in installs if command not in downloads]
    assert others
    for command in others:
        assert "--no-index" in command
        assert command[command.index("--find-links") + 1] == packages
    assert all("--no-build-isolation" in command for command in (downloads[0], others[-1])), "what builds a package is not in the lock"
    entries = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "requirements.lock").read_text())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_image_pins_every_package_that_the_wheel_asks_for() -> None:
    [script] = [text for name, text in instructions() if name == "RUN" and "constraints.txt" in text]
    [pins] = re.findall(r"sed -n '[^']+'", script)
    [extras] = re.findall(r"\.whl\)\[([a-z,]+)\]", script)
    constraints = subprocess.run([*shlex.split(pins), str(ROOT / "requirements.lock")], check=True, capture_output=True, text=True).stdout
    pinned = {Requirement(line).name.lower() for line in constraints.splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [text for extra in extras.split(",") for text in project["optional-dependencies"][extra]]
    assert {Requirement(text).name.lower() for text in wanted} - pinned == set()
