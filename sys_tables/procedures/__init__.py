"""The procedures of `sys`: one module each with its name, parameters and output; `sys_tables.registry` finds and serves them all.

To add one that only reads, add a module here: `help.py` is one to copy. To add one that changes something, add a module here and
the module of the same name in `tiering/coordinator/calls/`, which has the request, the result and the effect: `pause_tiering.py` is
a pair to copy, and the docstring of that package says the rest. `kv_snapshots/` holds those about KV snapshots and their leases, in
both places.
"""
