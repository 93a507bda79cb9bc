"""The console: what SQL sees, as pages.

Each value on a page is read from the service over gRPC, with the same calls as SQL and with the token of the user who started the
console. So the console shows a user exactly the rows that `SELECT` shows the same user. It never reads the coordinator's memory.

Where to go:
- add a panel to the page of a table: a `Panel` in `table_page`.
- add a page: an endpoint and its route in `app`, and a template.
- add an action: nothing. `actions` makes the form of a procedure from its declaration.
"""
