"""PromQL of the dashboards, put together from few words; every selector asks for the chosen job and instance."""

from __future__ import annotations

# The workers that are looked at.
WORKERS = 'job=~"$job", instance=~"$instance"'
# Their calls at the chosen endpoints.
CALLS = f'{WORKERS}, model=~"$model", endpoint=~"$endpoint"'
ENDPOINTS = f'{WORKERS}, endpoint=~"$endpoint"'
# Jobs of Headrace, as the exporter names them.
JOBS = WORKERS
# The workers again, on a board whose $job is a job of Headrace.
FLEET = 'job=~"$fleet"'
# A model server of one's own, for itself.
SERVERS = 'job=~"$server"'


def now(metric: str, by: str = "", how: str = "sum", where: str = WORKERS) -> str:
    """A gauge, put together over its other labels."""
    return f"{how}{_by(by)} ({metric}{{{where}}})"


def per_second(metric: str, by: str = "", where: str = WORKERS) -> str:
    """A counter's pace."""
    return f"sum{_by(by)} (rate({metric}{{{where}}}[$__rate_interval]))"


def newly(metric: str, by: str = "", where: str = WORKERS) -> str:
    """How much a counter has grown since the last point."""
    return f"sum{_by(by)} (increase({metric}{{{where}}}[$__rate_interval]))"


def quantile(share: float, histogram: str, by: str = "", where: str = WORKERS) -> str:
    """A quantile of what was observed lately."""
    kept = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, {per_second(f'{histogram}_bucket', kept, where)})"


def share(part: str, whole: str) -> str:
    """One of the other; absent where there is nothing to divide by."""
    return f"{part} / ({whole} > 0)"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""
