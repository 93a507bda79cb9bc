"""What the coordinator does on request: one module a procedure, named as it is in SQL.

To add a procedure that changes something:

1. Here, `x.py`: the request (a frozen dataclass `X(Mutation[XResult])` with the procedure's name and its arguments), the result, and the
   effect, a function under `@effect(X, pool=...)`. `pause_tiering.py` is a short one to copy. A decision about a table's record is a pure
   function in `coordinator/decisions/`.
2. `sys_tables/procedures/x.py`: name, parameters and output in SQL; it answers `await call.perform(X(...))`.

Nothing else has to be told: `control.perform` finds an effect by the class of the request, `sys_tables.registry` finds the procedure,
and `dry_run`, the idempotency key, `CALL sys.help` and the reference pages follow from the two.
`tests/sys_tables/procedures/test_changes_once.py` fails until it knows how to call the new procedure. One that only reads has no
module here.

Beside the procedures: `effects.py` (what an effect is, the threads it runs in, the parts it works with), `control.py` (performs
requests), `record_change.py` (effects that are one decision about one table's record), `tier_table_rows.py` (what a call of `tier_table`
wants and answers), `freshness/` (procedures about how fresh lake tables are), `kv_snapshots/` (procedures about KV snapshots
and leases), `lake_repair/` (`reconcile_lake`; looks at failed tables; `sweep_lake.py`, the effect of `lakeward sweep`, has no procedure).
"""
