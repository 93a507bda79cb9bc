"""Changes of lake tables by other programs: their files, their Spark, their tiering service."""
