"""Receivers of what monitoring sends, for tests."""
