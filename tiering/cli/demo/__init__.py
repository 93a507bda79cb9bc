"""`lakeward demo`: shows the main job on real data, step by step, in less than two minutes."""
