"""The gRPC layer: conversion of the model's values to messages and back, errors, the guard of every server, and the connections of every
client.

`codec` converts a dataclass and a message whose fields have the same names; `model_codecs` has the codecs of the model, and
`procedure_calls` those of CALLs. Other conversions are functions `x_to_pb` and `x_from_pb`. A package converts the values that only it uses
in its own `messages.py`: `coordinator/tierers`, `round`, `cluster/embedded/rpc` and `sys_tables/server`.
"""
