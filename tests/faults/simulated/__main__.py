"""Tells simulated stories of many seeds: `PYTHONPATH=.:tests python -m faults.simulated --seeds 10000`."""

from __future__ import annotations

import sys

from faults.many_seeds import tell_many
from faults.simulated.deployment_faults import STEPS as DEPLOYMENT_STEPS
from faults.simulated.faults import FAULTS, STEPS, run_seed

if __name__ == "__main__":
    sys.exit(tell_many("faults.simulated", FAULTS, run_seed, (STEPS + DEPLOYMENT_STEPS) / 2))
