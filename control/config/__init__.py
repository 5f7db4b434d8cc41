"""`headrace config`: which settings hold, and where each comes from."""
