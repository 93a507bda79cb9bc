"""Lakeward beside Flink's tiering: its committer, and a world with both."""
