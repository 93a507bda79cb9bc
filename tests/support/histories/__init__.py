"""Histories of what tierers ask and get, for a checker of linearizability."""
