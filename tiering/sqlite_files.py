"""SQLite files of others, opened so that nothing is made, changed or locked for long."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def read_only_url(file: Path) -> str:
    """SQLAlchemy's URL of a file that may only be read (SQLite, "URI Filenames": `mode=ro`). It fails if there is no such file."""
    return f"sqlite:///file:{quote(str(file.absolute()))}?mode=ro&uri=true"
