"""The tables and procedures of the database `sys`, as SQL sees them.

Where to go:
- add a table: one module in `tables/`: the dataclass of its rows and the function that makes them (`declare.system_table`).
- add a column: a field of that dataclass, in `tables/<name>.py`, and the line of its `rows` that fills it. Some tables, such
  as `lake_tiering_status` and `tierers`, show a dataclass of the tiering model, which then declares the columns.
- add a procedure: not here, but in `tiering/procedures`; `procedures` makes all of them callable from SQL.
- nothing is registered by hand: `registry` finds the modules and declarations. The reference page, `sys.help` and DuckDB use the registry.

Layers, each of which may import those below it:

    console                       pages in a browser
    server  offline  reference    the gRPC service; the same SQL in DuckDB with nothing running; the reference page
    catalog_client                reads and calls of the gRPC service, for commands and the console
    registry                      which tables and procedures there are
    tables  procedures            one module per table; one adapter for all procedures
    query                         evaluates a scan over rows; names as typed to names as spelled; data tables
    declare                       what a table and a procedure are: columns, scan requests, SQL types
"""
