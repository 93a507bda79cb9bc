"""Assigns tables to tierers and remembers everything durably."""
