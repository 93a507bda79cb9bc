"""The system tables, one module each.

To add one, write a module with a frozen row dataclass, whose fields are made with `column(comment)`, and a function under
`@system_table`. To add a column, add a field and fill it in the function. A new module needs no other change.
"""
