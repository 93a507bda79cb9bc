"""The digest that the programs of seeds print of all that happened, of a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from support.repository import ROOT


def printed_trace(module: str, *arguments: str, hash_seed: int) -> str:
    """The line of the digest. `hash_seed`: the order of sets in that process."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-m", module, *arguments]
    lines = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=240).stdout.splitlines()
    return next(line for line in lines if line.startswith("trace "))
