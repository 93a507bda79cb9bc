"""Reads and writes the splits of a round: on Spark, or inline in the tierer."""
