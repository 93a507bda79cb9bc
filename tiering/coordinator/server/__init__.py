"""The coordinator as a server: composition, background loops, gRPC services."""
