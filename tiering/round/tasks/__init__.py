"""Where and how the splits of a round are read and written: on Spark, or inline."""
