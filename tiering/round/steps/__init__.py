"""One round as a pure machine: (state, event) -> (state, action)."""
