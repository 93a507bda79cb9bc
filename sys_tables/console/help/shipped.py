"""Folders of the repository that a wheel has, too: documentation and examples, which the console shows."""

from __future__ import annotations

from pathlib import Path

_CONSOLE = Path(__file__).parent.parent
_REPOSITORY = _CONSOLE.parent.parent


def shipped_folder(name: str) -> Path:
    """Returns `docs` or `sql_examples`: of the wheel, or of the repository for an editable installation."""
    packed = _CONSOLE / "shipped" / name
    return packed if packed.is_dir() else _REPOSITORY / name
