"""Errors of libraries, as they are told to users."""

from __future__ import annotations

from tiering.redaction.redact import outside_text


def describe(error: BaseException) -> str:
    """Class and text of an outside error, without secrets, on one line."""
    return " ".join(outside_text(f"{type(error).__name__}: {error}", 1_000).split())
