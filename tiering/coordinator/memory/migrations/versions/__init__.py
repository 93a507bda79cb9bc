"""One module per revision, oldest first. A released revision never changes."""
