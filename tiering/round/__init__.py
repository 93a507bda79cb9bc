"""One tiering round on Spark: plan, read and write on executors, commit; and the tierer that runs rounds.

machine.py   what to do next: pure            plan.py, prefix.py   what to read, what to commit: pure
runner.py    does it, and feeds the machine   task.py              one split on an executor
inline.py, spark.py   where tasks run         tierer.py            the long-running service
"""
