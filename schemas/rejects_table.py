"""The table of rejected rows beside the target: the source's columns with reason and detail, one folder a run."""

from __future__ import annotations

from schemas.requests_table import run_folder


def address(target: str) -> str:
    """Name the folder of the table that belongs to a target, given the path that it is named after."""
    return f"{target.rstrip('/')}_rejects"


def folder(target: str, run: str) -> str:
    """Name the folder of one run's rejected rows."""
    return f"{address(target)}/{run_folder(run)}"
