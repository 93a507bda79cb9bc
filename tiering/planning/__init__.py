"""What a round has to read, decided by the lake's marker and the cluster's offsets. Pure: rounds and the coordinator ask it alike.

plan_splits.py         what a round reads, and how a bucket is cut into splits
check_log.py           whether the log is the one that was tiered, and reaches to where tiering goes on
readable_splits.py     which of the splits can be read
explain_plan.py        what a plan would read of each bucket, and why, in words
contiguous_prefix.py   what of the work on a plan may be committed
"""
