"""Where data goes: lake tables, format by format.

`base` is the interface that a format implements, `registry` the list of formats (start there to add one), `iceberg/` the first format.
`marker` is the record inside a lake table of how far it is tiered, and `rules/` what coordinator and rounds decide by it; both know no
format. What a format may offer beyond tiering is in `maintenance` (reconcile, sweep) and `file_lists` (reading by others, such as
`duckdb_rows`). `catalog_properties` says which properties of a catalog may be set and shown. `tests/conformance/` holds what each
format must keep.
"""
