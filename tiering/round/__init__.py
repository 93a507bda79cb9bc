"""One tiering round on Spark: it plans, reads and writes on executors, and commits. Also the tierer, which runs rounds.

steps/machine.py             decides the next step; pure. The steps are in steps_to_write.py, steps_to_commit.py and steps_of_upkeep.py
runner.py                    carries out the actions and passes their results to the machine
tasks/split_work.py          processes one split on an executor; inline_runner.py and spark_runner.py decide where tasks run
tierer.py                    the long-running service; transport.py calls the coordinator, lease_keeper.py renews the lease
"""
