"""Everything that Spark needs to use Lakeward: jars, properties, views, Java."""
