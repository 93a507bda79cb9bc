"""Faults for real processes: networks, clocks and disks that fail, and the deployment that they happen to."""
