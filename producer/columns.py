"""Names of the columns that the producer adds to the source's own, and how a column is named safely."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as fn

from schemas.sources import CORRUPT_COLUMN

PREFIX = "__headrace_"
ID = f"{PREFIX}id"
PROMPT = f"{PREFIX}prompt"
MODEL = f"{PREFIX}model"
ROUTE = f"{PREFIX}route"
FINGERPRINT = f"{PREFIX}fingerprint"
VALUE = f"{PREFIX}value"
VERDICT = f"{PREFIX}verdict"
TRUNCATED = f"{PREFIX}truncated"
REPEATED = f"{PREFIX}repeated"
# Of rows whose route names a second model: whether they ask it by now, the request to it, and what makes them.
ESCALATED = f"{PREFIX}escalated"
SECOND = f"{PREFIX}second"
REASONS = f"{PREFIX}reasons"
# The names that are public: rules and routes ask for the first, routes for the second.
PROMPT_CHARS = "prompt_chars"
RULE = "rule"
CORRUPT = CORRUPT_COLUMN


def column(name: str) -> Column:
    """Name a column by its exact text, whatever characters it holds."""
    return fn.col(f"`{name.replace('`', '``')}`")


def turn(number: int) -> str:
    """Name the column of a filled template, where there are several."""
    return f"{PREFIX}turn_{number}"


def text_of(name: str) -> str:
    """Name the added column that holds a source column as cleaned text."""
    return f"{PREFIX}text_{name}"


def first_of(cases: Iterable[tuple[Column, Column]]) -> Column:
    """Take the value of the first condition that holds; null if none does, or if there are none."""
    chain: Column | None = None
    for condition, value in cases:
        chain = fn.when(condition, value) if chain is None else chain.when(condition, value)
    return fn.lit(None) if chain is None else chain


def any_of(conditions: Iterable[Column]) -> Column:
    """Tell whether any condition holds; one that is null does not."""
    result = fn.lit(False)
    for condition in conditions:
        result |= fn.coalesce(condition, fn.lit(False))
    return result
