"""The embedded cluster over gRPC: service, client and writer."""
