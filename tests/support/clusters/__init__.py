"""Clusters for tests: embedded with a clock to drive, in memory, of older versions."""
