"""Helpers that tests of upkeep rounds share."""
