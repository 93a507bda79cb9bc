"""The lake as Apache Fluss configures it. `options` maps Fluss's options to the properties of our lake catalog, `jdbc` a JDBC URL.
`server_yaml` reads the file in which a Fluss server has them. Pure, except for reading that file."""
