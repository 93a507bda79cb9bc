"""How good a lake table is to read: what its metadata tells, and the score that follows from it."""
