"""Decides what a round has to read, from the lake's marker and the cluster's offsets. Pure: rounds and the coordinator share it.

plan_splits.py         what a round reads, and how a bucket is cut into splits
check_log.py           whether the log is the one that was tiered, and still has the next record
readable_splits.py     which of the splits can be read
explain_plan.py        a text that says what a plan would read of each bucket, and why
contiguous_prefix.py   the write results of a round that may be committed
"""
