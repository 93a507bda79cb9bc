"""Lakeward's work: moves the data of a streaming store into lake tables with Spark, exactly once."""
