"""Decisions: no await, no clock, no randomness, no I/O."""
