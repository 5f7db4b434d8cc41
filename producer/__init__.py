"""Spark job: source, clean, route, fingerprint, publish."""
