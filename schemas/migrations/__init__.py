"""The history of the tables; `headrace migrate` brings a database to its newest state."""
