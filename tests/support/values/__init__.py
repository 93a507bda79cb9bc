"""Values and rows of every kind, and what they are bit by bit."""
