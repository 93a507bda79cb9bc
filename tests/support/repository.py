"""Where this repository lies: tests read its documents, examples and sources."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
