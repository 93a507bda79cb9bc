"""Requests to a JVM of tests: one line of words between tabs, answered by one line "> ok ..." or "> error ..."."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def ask_jvm(process: subprocess.Popen[str], words: Sequence[str], error: type[Exception]) -> str:
    """Returns the answer to a request. Raises `error` with the message of the JVM, or when the JVM ends. Other output is skipped."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\t".join(words) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("> ok"):
            return line.removeprefix("> ok").strip("\n").removeprefix(" ")
        if line.startswith("> error"):
            raise error(line.removeprefix("> error ").strip())
    raise error("the JVM ended")
