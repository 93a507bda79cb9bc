"""What others do to lake tables: their files, their Spark, their tiering service."""
