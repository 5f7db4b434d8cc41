"""A real Kafka and a real Postgres on this machine, without Docker: `python -m deploy.local up`."""

from __future__ import annotations
