"""One tiering round on Spark: plan, read and write on executors, commit; and the tierer that runs rounds.

steps/machine.py             what to do next: pure; the steps are in steps_to_write.py and steps_to_commit.py
runner.py                    carries the actions out, and feeds the machine what came back
tasks/split_work.py          one split on an executor; inline_runner.py and spark_runner.py decide where tasks run
tierer.py                    the long-running service; transport.py is its way to the coordinator, lease_keeper.py holds its lease
"""
