"""The gRPC service for the Spark plugin."""
