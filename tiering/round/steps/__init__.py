"""One round as a pure state machine: (state, event) -> (state, action)."""
