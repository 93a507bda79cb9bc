"""Lake tables: the interface of a lake format, the formats, and the rules that are the same for all of them.

`base` is the interface that a format implements. `registry` lists the formats; start there to add one. `iceberg/` is the first format.
`marker` is the record inside a lake table of how far it is tiered. `rules/` has the decisions of coordinator and rounds. Both are
independent of the format. Optional abilities of a format are in `maintenance` (reconcile, sweep) and `file_lists` (for readers such as the
validation). `catalog_properties` defines which properties of a catalog may be set and shown. `tests/conformance/` has the tests that each
format must pass.
"""
