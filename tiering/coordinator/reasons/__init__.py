"""Why a table is in its state, and why no round of it begins now, in words. Pure.

status_reason.py   one line about a table: the column `status_reason`
why_not_now.py     all reasons why no round begins: what `CALL sys.explain_tiering` returns about the table as a whole
"""
