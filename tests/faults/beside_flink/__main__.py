"""Tells random stories beside Flink of many seeds: `PYTHONPATH=.:tests python -m faults.beside_flink --seeds 2000`."""

from __future__ import annotations

import sys

from faults.beside_flink.faults import FAULTS, STEPS, run_seed
from faults.many_seeds import tell_many

if __name__ == "__main__":
    sys.exit(tell_many("faults.beside_flink", FAULTS, run_seed, STEPS))
