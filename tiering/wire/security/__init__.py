"""TLS and identity of connections: what a client shows with each call, and how a service asks for it."""
