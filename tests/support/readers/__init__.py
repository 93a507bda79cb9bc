"""Readers of lake tables that are compared with each other: what each is asked, and the page that says what each answered."""
