"""What every program knows of the database without knowing its tables."""

from __future__ import annotations

SCHEMA = "headrace"
# The newest migration: what a worker needs to find.
REVISION = "0005"
# How long a claim holds without being renewed, on the database's clock, and how often its owner renews it.
LEASE_SECONDS = 60
RENEW_SECONDS = 20
# A message whose third owner died is not started a fourth time.
MAX_STARTS = 3
