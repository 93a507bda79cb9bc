"""The embedded cluster over gRPC: service, client and messages."""
