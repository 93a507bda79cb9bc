"""Pages about what happens in the service: a round, and lists with filters."""
