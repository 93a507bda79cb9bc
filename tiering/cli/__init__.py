"""The `lakeward` command, and the composition root: the only package that puts all parts together."""

import os

# gRPC reads this variable when it is imported. Its own messages, such as one for each failed handshake, would appear before our message,
# and in another format between the lines of a log.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
