"""Shows the state of tiering on a screen, on a page about one table, and as a file for support."""
