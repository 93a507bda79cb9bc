"""Runs a real Fluss cluster on this machine, from jars of Maven Central. It is for demos and tests, not for valuable data."""
