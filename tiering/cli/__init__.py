"""The `lakeward` command and the composition root: here, and only here, all parts meet."""

import os

# gRPC reads it when it is imported. Its own lines, such as that of each handshake that failed, would stand before our message, and in no
# form of ours between the lines of a log.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
