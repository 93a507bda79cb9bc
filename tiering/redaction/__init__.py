"""Makes text from outside safe to store and show: masks secrets (`redact`), escapes control characters (`visible_text`), cuts it."""
