"""The gRPC service that the Spark plugin talks to."""
