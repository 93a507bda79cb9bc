"""TLS and identity of connections: the credentials that a client sends with each call, and the server's check of them."""
