"""Decides what a round has to read, from the lake's marker and the cluster's offsets. Pure: rounds and the coordinator share it.

plan_splits.py    what a round reads, how a bucket is cut into splits, which of them can be read, and which write results may be committed
check_log.py      whether the log is the one that was tiered, and still has the next record
explain_plan.py   a text that says what a plan would read of each bucket, and why
"""
