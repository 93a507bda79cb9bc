"""Importing this lets a bench import `support`, what tests share: `tests/` comes behind the project, some of whose names it has, too."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT), str(ROOT / "tests")]
