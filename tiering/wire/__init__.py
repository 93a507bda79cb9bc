"""What travels over gRPC: messages from the model's values and back, errors, the guard of every server and the connections of every client.

`xxx_to_pb` makes a message and `xxx_from_pb` reads one, in a module named after the noun. Values of one room alone are converted there, by
the same names: `coordinator/tierers/messages`, `round/messages`, `cluster/embedded/rpc/messages`, `sys_tables/server/messages`.
"""
