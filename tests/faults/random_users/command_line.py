"""`lakeward ...` in this process, as users type it, and what no command may ever print."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout

from support.running.commands import Ended
from tiering import errors
from tiering.cli.main import main
from tiering.cli.terminal.exit_status import ExitStatus

DATA_FILES_MISSING = "DataFilesMissing"
"""The cause of a `RoundFailed` that has a hint of its own. What no class is for has the name of Python's or a library's error."""
_CLASS = re.compile(r"\[(\w+)\]$")


def lakeward(*words: str) -> Ended:
    """Runs the whole command line. Anything but an exit status is a defect, and is raised."""
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["lakeward", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        return Ended(int(ended.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = argv
    raise AssertionError("main() returned")


def error_class(ended: Ended) -> str | None:
    """The class that the error names; None for one of usage, and without an error."""
    lines = ended.err.strip().splitlines()
    matches = [match[1] for line in lines if (match := _CLASS.search(line))]
    return matches[-1] if matches else None


def is_foreseen(name: str) -> bool:
    """Returns whether the error's class is one of Lakeward's, and not an unexpected one."""
    return name == DATA_FILES_MISSING or issubclass(getattr(errors, name, Exception), errors.LakewardError)


def unclear(ended: Ended) -> str | None:
    """Returns why the command's end does not help the user; None if it does."""
    if "Traceback" in ended.out + ended.err:
        return "it prints a traceback"
    if ended.status not in set(ExitStatus):
        return f"exit status {ended.status}"
    name = error_class(ended)
    if name is not None and not is_foreseen(name):
        return f"no error of Lakeward's: {name}"
    if ended.status == ExitStatus.FAILED and not ended.out and not ended.err:
        return "it fails and says nothing"
    return None
