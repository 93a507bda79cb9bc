"""Monitoring of coordinator and tierers: metrics and health over HTTP, traces of rounds and calls, a dashboard and alert rules.

`metrics.py` declares each metric once. The collectors, docs/metrics.md, the dashboard and the alerts use these declarations.
"""
