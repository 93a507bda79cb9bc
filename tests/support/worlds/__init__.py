"""Whole deployments in one process, driven by hand or by a seed."""
