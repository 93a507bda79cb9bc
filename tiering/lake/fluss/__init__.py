"""The lake as Apache Fluss configures it. `options` maps Fluss's options, JDBC URLs among them, to the properties of our lake catalog.
`server_yaml` reads the file in which a Fluss server has them. `offsets_file` has the format of Fluss's file of tiered offsets.
"""
