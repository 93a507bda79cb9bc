"""The coordinator's effects of procedures: one module per procedure, named as in SQL.

To add a procedure that changes something:

1. Here, `x.py`: the request (a frozen dataclass `X(Mutation[XResult])` with the procedure's name and arguments), the result, and the
effect, a function under `@effect(X, pool=...)`. `pause_tiering.py` is a short one to copy. A decision about a table's record is a pure
function in `coordinator/decisions/`. 2. `sys_tables/procedures/x.py`: name, parameters and output in SQL; it returns the result of `await
call.perform(X(...))`. 3. `access/requirements.py`: the privilege that its caller needs.

`control.perform` finds an effect by the class of the request, and `sys_tables.registry` finds the procedure. `dry_run`, the idempotency
key, `CALL sys.help` and the reference pages follow from these. `tests/sys_tables/procedures/test_changes_once.py` fails until it has a call
of the new procedure. A procedure that only reads has no module here.

Other modules:
- `effects.py`: what an effect is, its threads and the parts that it uses.
- `control.py`: performs requests.
- `record_change.py`: effects that are one decision about one table's record.
- `tier_table_rows.py`: goal and answer of a call of `tier_table`.
- `lake_repair/`: `reconcile_lake`, the inspection of failed tables, and `sweep_lake.py`, the effect of `lakeward sweep`, which has no
  procedure.
"""
