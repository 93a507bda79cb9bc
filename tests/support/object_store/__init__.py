"""A lake as in production, for tests: an S3 server, an Iceberg REST catalog server, and an HTTP proxy that loses answers."""
