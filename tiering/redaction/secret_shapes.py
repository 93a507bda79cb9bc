"""Patterns of tokens that can be recognized by the beginning that their makers gave them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_REST_OF: tuple[tuple[str, str], ...] = (
    ("eyJ", r"[A-Za-z0-9_-]{5,}+(?:\.[A-Za-z0-9_-]*+){0,4}"),  # JWT, and whatever else is JSON in Base64
    *((kind, r"[A-Z0-9]{16}(?![A-Z0-9])") for kind in ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA", "ABIA", "ACCA")),  # AWS
    *((f"gh{kind}_", r"[A-Za-z0-9]{20,}+") for kind in "pousr"),  # GitHub
    ("github_pat_", r"\w{20,}+"),
    ("glpat-", r"[\w-]{15,}+"),  # GitLab
    *((f"xox{kind}-", r"[\w-]{10,}+") for kind in "abeoprs"),  # Slack
    ("xapp-", r"[\w-]{10,}+"),
    ("hooks.slack.com/services/", r"[\w/]{8,}+"),
    ("AIza", r"[\w-]{30,}+"),  # Google
    ("ya29.", r"[\w.-]{10,}+"),
    ("GOCSPX-", r"[\w-]{10,}+"),
    *((f"{kind}k_{mode}_", r"\w{10,}+") for kind in "sr" for mode in ("live", "test")),  # Stripe
    ("sk-", r"[\w-]{20,}+"),
    ("npm_", r"[A-Za-z0-9]{30,}+"),
    ("pypi-AgE", r"[\w-]{20,}+"),
    ("hf_", r"[A-Za-z0-9]{30,}+"),
    ("dapi", r"[0-9a-f]{32}"),  # Databricks
    ("dop_v1_", r"[0-9a-f]{32,}+"),
    ("hvs.", r"[\w-]{20,}+"),  # Vault
    ("SG.", r"[\w-]{16,}+\.[\w-]{16,}+"),  # SendGrid
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}+"),
)
"""What they start with, and what follows."""
_STORAGE_KEY = r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="
"""The key of an Azure storage account; it starts with nothing of its own."""


def shapes_in(text: str) -> Iterator[re.Pattern[str]]:
    """Yields the patterns of the tokens that may be in `text`: those whose beginning it holds."""
    for start, rest in _REST_OF:
        if start in text:
            yield _compiled(rf"(?<![A-Za-z0-9]){re.escape(start)}{rest}")
    if "==" in text:
        yield _compiled(_STORAGE_KEY)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern when it is first needed: most processes need none of them."""
    return re.compile(pattern)
