"""A simulated deployment of several tables: cluster, lake, store, processes and users in one thread, driven by a seed."""
