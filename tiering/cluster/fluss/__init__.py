"""An Apache Fluss cluster (0.9) as the source, beside Flink's tiering or instead of it."""
