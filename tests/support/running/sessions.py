"""The processes of a session: a `Process` of the tests and all that it started."""

from __future__ import annotations

from pathlib import Path


def processes_of(session: int, holding: str) -> dict[int, str]:
    """Pid -> state letter of those in a session whose command line holds a text."""
    states = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _parent, _group, its_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if int(its_session) == session and holding in command:
            states[int(folder.name)] = state
    return states
