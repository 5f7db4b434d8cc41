"""How Headrace is run: images, charts, dashboards and the local stack without Docker."""

from __future__ import annotations
