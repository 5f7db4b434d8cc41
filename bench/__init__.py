"""Measurements: each figure as ours, reference, ratio and goal, in one run on real services."""
