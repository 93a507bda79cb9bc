"""The formats of Fluss 1.0, written by its published client, which stands in for the servers that are not published.

Rows are also appended to a real Fluss without a client that checks them.
"""
