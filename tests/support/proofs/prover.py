"""Makes proofs of tables, and runs `verify.py` on them as their reader does: in a process of its own, outside of this repository."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableInfo
from tiering.validate.archive import verify
from tiering.validate.archive.document import ProofWitness
from tiering.validate.archive.sealing import sealed
from tiering.validate.archive.signing_key import SigningKey
from tiering.validate.results import Level
from tiering.validate.run import validate


@dataclass
class Prover:
    """Makes proofs with one key, and runs `verify.py` on them."""

    world: LakeWorld
    key: SigningKey
    folder: Path

    def document(self, table: TableInfo) -> dict[str, Any]:
        witness = ProofWitness("embedded", self.world.clock)
        results = validate(self.world.storage, self.world.lake, table.path, Level.ROWS, witness=witness)
        return witness.document(results)

    def archive(self, table: TableInfo) -> bytes:
        return sealed(self.document(table), self.key)

    def save(self, archive: bytes) -> Path:
        """Returns the archive as a file, beside `verify.py`, which is taken from the program that made the archive."""
        file = self.folder / "proof.zip"
        file.write_bytes(archive)
        (self.folder / "verify.py").write_bytes(Path(verify.__file__).read_bytes())
        return file

    def verified(self, archive: bytes, *options: str) -> tuple[int, str]:
        """Returns the exit status of `verify.py` and what it prints."""
        return self.run(str(self.save(archive)), *options)

    def run(self, *arguments: str, python: tuple[str, ...] = ("-I",)) -> tuple[int, str]:
        """Returns the exit status and what is printed. `python`: options of Python; without -I its path has the folder of `verify.py`."""
        command = [sys.executable, *python, str(self.folder / "verify.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120)
        return done.returncode, done.stdout + done.stderr
