"""Fluss's protocol from the client's side: the calls, their frames, the servers, and the meaning of errors."""
