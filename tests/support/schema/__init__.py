"""Columns of tables for tests: changes at random, and the rows that readers then see."""
