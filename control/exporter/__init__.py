"""`headrace exporter`: what the database knows of jobs and fleet, as series for Prometheus."""
