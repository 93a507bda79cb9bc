"""The gRPC layer: conversion of the model's values to messages and back, errors, the guard of every server, and the connections of every
client.

`xxx_to_pb` makes a message and `xxx_from_pb` reads one, in a module named after the noun. A package converts the values that only it uses,
under the same names: `coordinator/tierers/messages`, `round/messages`, `cluster/embedded/rpc/messages`, `sys_tables/server/messages`.
"""
