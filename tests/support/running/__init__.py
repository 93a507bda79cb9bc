"""Real processes, terminals and Spark sessions."""
