"""Airflow and Dagster as the tests run them, each in an environment of its own."""
