"""`lakeward demo`: the main job on real data, told step by step, in under two minutes."""
