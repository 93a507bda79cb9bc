"""Services and clients over real gRPC, honest and hostile."""
