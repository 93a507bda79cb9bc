"""Pure decisions: (context, record, event) -> `Change`. No I/O, no clock, no ids.

`table_lifecycle` (appears, is due, goes away), `round_lifecycle` (assigned to ended), `lake_acks` (what the lake holds, and the ledger of
grants), `operator_requests` (what a CALL changes), `reconciliation`; `backoff` and `backlog` are rules of their own. `change` has the
outcome of a decision, `records` what it is made of, `moment` the time that it sees.
"""
