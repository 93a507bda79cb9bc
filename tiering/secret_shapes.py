"""Tokens that tell by themselves what they are: their makers gave them a beginning of their own."""

from __future__ import annotations

import re

SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    *(
        (start, re.compile(rf"(?<![A-Za-z0-9]){re.escape(start)}{rest}"))
        for start, rest in (
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
    ),
    ("==", re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==")),  # a storage account's key
)
"""What they start with, for a fast look, and the whole."""
