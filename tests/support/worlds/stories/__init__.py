"""Drawn stories of a small deployment: what may happen in them, and what heals it, a module a subject."""
