"""The main job on this machine: real texts through every stage, from one command."""
