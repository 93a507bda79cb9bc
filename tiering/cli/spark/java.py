"""Finds the Java that Spark uses, or tells what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tiering.errors import SetupError

MINIMUM_JAVA = 17
"""Spark 4.1 runs on Java 17 and 21."""
_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


def require_java() -> Path:
    """Returns the `java` command that Spark uses. Raises SetupError with the Java that was found and what to install."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None or not Path(command).exists():
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise SetupError(f"no Java was found ({where})", hint="Install a JDK 17 or newer, such as Debian's openjdk-17-jdk-headless.")
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, errors="replace", check=False).stderr
    except OSError as error:
        raise SetupError(
            f"{command} cannot be run: {error.strerror or error}",
            hint="Install a JDK 17 or newer for this machine, and set JAVA_HOME to it.",
        ) from error
    match = _VERSION.search(answer)
    major = int(match["major"]) if match else 0
    if major < MINIMUM_JAVA:
        raise SetupError(
            f"{command} is Java {major or 'of an unknown version'}; Spark needs {MINIMUM_JAVA} or newer",
            hint="Install a JDK 17 or newer and set JAVA_HOME to it.",
        )
    return Path(command)
