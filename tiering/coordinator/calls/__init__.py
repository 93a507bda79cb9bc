"""The effects of the procedures: one module per procedure, named as in SQL and as its declaration in `tiering/procedures`.

The module `x` has a function `x(parts, request)`. If its declaration names a pool, the function blocks in a thread of that pool and returns
the result. Otherwise it is an async generator, which yields `Progress` and then the result, and runs its blocking steps in
`parts.threads`. `tiering.coordinator.server.control` finds the effect of a request by the name of its procedure.

A decision about a table's record is a pure function in `coordinator/decisions/`. `coordinator/call_support/` has what several effects
share.
"""
