"""Lakes for tests: real, in memory, broken, hostile; and what their files hold."""
