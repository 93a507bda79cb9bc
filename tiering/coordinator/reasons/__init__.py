"""Why a table is where it is, and why no round of it begins now, in words. Pure.

status_reason.py   one line about a table: the column `status_reason`
turns.py           the same where the cluster assigns tables
why_not_now.py     all that keeps a round from beginning: what `CALL sys.explain_tiering` says of the table as a whole
"""
