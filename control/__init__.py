"""The `headrace` command: what an operator asks and tells."""
