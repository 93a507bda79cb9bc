"""Pure decisions of the coordinator: functions (context, record, event) -> `Change`. They do no I/O, read no clock and make no ids.

`table_lifecycle` decides when a table appears, is due and is removed. `round_lifecycle` takes a round from its assignment to its end.
`lake_acks` records what the lake holds and settles the ledger of grants. `operator_requests` applies a CALL. `reconciliation` applies
`reconcile_lake` and `retry_tiering`. `retries` has the back-off, `backlog` the backlog of a table, and `upkeep/` everything
about upkeep. `change` is the outcome of a decision, `records` are its inputs, and `moment` is the time that it sees.
"""
