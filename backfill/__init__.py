"""Spark job: finished results into the warehouse."""
