"""What all tables are made of: the metadata with its names for constraints, and the kinds of columns of our own."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, DateTime, MetaData
from sqlalchemy.types import UserDefinedType

from schemas.database import SCHEMA
from schemas.statuses import Billed, JobState, LetterKind, PausedFor, Reason, Status, Unit


class XID8(UserDefinedType[int]):
    """A transaction id that never wraps around; what the commit-safe cursor orders by."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Name the type in DDL."""
        return "xid8"


def one_of(column: str, words: type[Status | Reason | Billed | JobState | LetterKind | PausedFor | Unit]) -> str:
    """Write the check of a closed list of words."""
    return f"{column} IN ({', '.join(repr(str(word)) for word in words)})"


def instant(name: str) -> Column[datetime]:
    """Make a column of time, with its zone."""
    return Column(name, DateTime(timezone=True))


metadata = MetaData(
    schema=SCHEMA,
    naming_convention={"ck": "%(table_name)s_%(constraint_name)s", "pk": "%(table_name)s_pkey"},
)
