"""The lake in Apache Fluss's own words: `options` maps them to the properties of our lake catalog, `jdbc` a JDBC URL, `server_yaml`
reads the file in which a Fluss server has them. Pure but for reading that file."""
