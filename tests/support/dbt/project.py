"""The example project of `integrations/dbt`, copied so that dbt can write beside it, and dbt commands in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.dbt.environment import DBT
from support.repository import ROOT

PACKAGE = ROOT / "integrations" / "dbt"
COMMANDS = Path(__file__).with_name("commands.py")
PATIENCE_S = 600
"""dbt takes some 30 s for all commands of a test, but machines are busy."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a dbt command. `nodes`: status and message of each model, test, source or operation by its name."""

    success: bool
    error: str
    nodes: Mapping[str, Sequence[str]]

    def status(self, node: str) -> str:
        return self.nodes[node][0]

    def message(self, node: str) -> str:
        return self.nodes[node][1]


@dataclass(frozen=True)
class Project:
    """A copy of the example in `folder`. `environment`: variables of its profile."""

    folder: Path
    environment: Mapping[str, str]

    @classmethod
    def copied(cls, folder: Path, **environment: str) -> Project:
        """Copies the package with its example below `folder`, as a user has them in a checkout."""
        shutil.copytree(PACKAGE, folder / "dbt", ignore=shutil.ignore_patterns("target", "dbt_packages", "logs"))
        return cls(folder / "dbt" / "example", environment)

    def run(self, *commands: str | Sequence[str]) -> list[Outcome]:
        """Runs the commands, one after the other, in one process. A command is its words, or a text of words without spaces in them."""
        words = [command.split() if isinstance(command, str) else list(command) for command in commands]
        DBT.make()
        ended = subprocess.run(
            [DBT.python, "-P", COMMANDS],
            cwd=self.folder,
            env={**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "False", "TZ": "UTC", **self.environment},
            input=json.dumps(words),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4_000:]
        return [Outcome(**fields) for fields in json.loads(ended.stdout.splitlines()[-1])]

    def written(self, name: str) -> dict[str, Any]:
        """An artifact that the last command wrote, such as `catalog.json`."""
        artifact: dict[str, Any] = json.loads((self.folder / "target" / name).read_text())
        return artifact
