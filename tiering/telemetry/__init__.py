"""What monitoring sees of coordinator and tierers: metrics and health over HTTP, traces of rounds and calls, a dashboard and alert rules.

`metrics.py` declares every metric once: its collectors, the reference, the dashboard and the alerts go by it.
"""
