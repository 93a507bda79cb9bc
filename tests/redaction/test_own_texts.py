"""Our own advice passes the redactor, and comes out as it was written: also where it speaks of an option that is named like a secret."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sys_tables
import tiering
from tiering.redaction import redact as redactor
from tiering.redaction.known_secrets import KnownSecrets
from tiering.redaction.redact import redact

MASKED = {
    "tiering/cli/terminal/service_options.py": "postgresql://user@host/database",  # help of an option, which no error shows
    "tiering/redaction/unnamed_secrets.py": "private-lines:",  # what the redactor looks for
}
"""Modules with a text that the redactor cuts, and a part of that text."""


def texts_of(module: Path) -> Iterator[str]:
    """String literals of a module, with `x` for what is put into one; no docstrings, which no error shows."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            left_out |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that they took for secrets are words of ours."""
    monkeypatch.setattr(redactor, "KNOWN", KnownSecrets())


def test_no_text_of_ours_is_cut() -> None:
    cut, texts = [], 0
    for package in (tiering, sys_tables):
        root = Path(package.__path__[0])
        for module in sorted(root.rglob("*.py")):
            name = module.relative_to(root.parent).as_posix()
            for text in texts_of(module):
                texts += 1
                if redact(text) != text and not (name in MASKED and MASKED[name] in text):
                    cut.append((name, redact(text)))
    assert texts > 10_000  # else it looked at something else
    assert cut == []


@pytest.mark.parametrize(
    "text",
    [
        "Add --auth token, mtls or oidc (docs/security.md).",
        "start it with --auth mtls.",
        "a coordinator with `--auth oidc` takes JWTs (--auth oidc)",
        "--auth=token",
        "--auth none",
    ],
)
def test_how_callers_prove_who_they_are_is_no_secret(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", ["--auth tokenofmine", "--auth=hunter2", "auth: s3cr3tvalue", "--auth-token token"])
def test_what_else_stands_behind_such_an_option_is(text: str) -> None:
    assert redact(text).endswith("***")
