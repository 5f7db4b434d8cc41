"""Rules and scrape jobs for Prometheus, and the same rules for its operator."""
