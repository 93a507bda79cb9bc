"""An error that retries do not end says what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tiering
from tiering import errors

HINTED_BY_CALLER = ("cluster", "LogTruncated")
"""A cluster's reader raises it without one: the round makes SourceChanged of it, and the next one's look at the log says what is lost."""


def permanent_errors_without_hint() -> Iterator[str]:
    """Where such an error is made with neither a hint of its own nor that of its class."""
    classes = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, errors.PermanentTieringError) and not item.default_hint
    }
    for file in sorted(Path(tiering.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            name = ast.unparse(node.func).rsplit(".", 1)[-1] if isinstance(node, ast.Call) else ""
            is_hinted = (file.relative_to(Path(tiering.__file__).parent).parts[0], name) == HINTED_BY_CALLER
            if isinstance(node, ast.Call) and name in classes and not is_hinted and "hint" not in {key.arg for key in node.keywords}:
                yield f"{file.name}:{node.lineno} {name}"


def test_a_permanent_error_never_comes_without_a_hint() -> None:
    assert list(permanent_errors_without_hint()) == []
