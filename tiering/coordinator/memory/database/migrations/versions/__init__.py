"""One module a revision, oldest first. A revision that was released never changes."""
