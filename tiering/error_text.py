"""An error as one text, for tools that show nothing else. Executors import this module, so it imports no other one."""

from __future__ import annotations


def error_text(error_class: str | None, message: str | None, hint: str | None) -> str:
    """Returns an error's class, message and hint, such as `[UnknownTable] sales.orders does not exist Hint: ...`."""
    return f"[{error_class}] {message}" + (f" Hint: {hint}" if hint else "")
