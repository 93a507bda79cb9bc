"""What a Spark needs to see Lakeward: jars, properties, views, Java."""
