"""Tiers the data of a streaming store into lake tables with Spark, exactly once: coordinator, tierers, lake formats and clients."""
