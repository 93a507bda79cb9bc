"""The page that runs queries on `sys`: which statements it runs, a process for each of them, and the examples."""
