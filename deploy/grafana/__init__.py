"""The dashboards: Python writes their JSON, which is committed; `python -m deploy.grafana` writes it anew."""
