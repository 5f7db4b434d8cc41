"""`headrace doctor`: whether everything that a run needs is there, all of it at once."""
