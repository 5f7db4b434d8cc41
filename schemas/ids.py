"""How a row comes to its id: one column as it is, or a hash of the content of several by a written rule.

The rule: the SHA-256, in hex, of the text of each column in the order given, each as its length in bytes of UTF-8, a
colon, and the text itself; NULL counts as empty text. Where all columns are empty there is no id. The length keeps
`("ab", "c")` apart from `("a", "bc")`. Nothing else goes in: no position, partition, time or random number, so the
same content has the same id in every run, however the table is cut into tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag

from schemas.shaping import Part, Text


class DerivedId(Part):
    """An id made of the content of columns."""

    model_config = ConfigDict(title="DerivedId")

    columns: list[Text] = Field(
        alias="from", min_length=1, description="columns whose content makes the id, in order"
    )


def _named(value: object) -> object:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, dict | DerivedId):
        return value
    raise ValueError("must name a column with a stable, unique id, or the columns to derive one from: {from: [a, b]}")


Id = str | DerivedId
# As a job file spells it; a problem is told of one of the two forms.
WrittenId = Annotated[
    Annotated[str, Tag("column")] | Annotated[DerivedId, Tag("derived")],
    Discriminator(lambda value: "column" if isinstance(value, str) else "derived"),
    BeforeValidator(_named),
]


def columns(id_: Id) -> list[str]:
    """Name the columns that an id is made of."""
    return [id_] if isinstance(id_, str) else id_.columns


def sql(id_: Id, table: str = "") -> str:
    """Write the id of a row as Spark SQL: text, or NULL if there is none; `table` is a prefix like `t.`."""
    texts = [f"CAST({table}{_quoted(name)} AS STRING)" for name in columns(id_)]
    if isinstance(id_, str):
        return texts[0]
    known = [f"coalesce({text}, '')" for text in texts]
    parts = ", ".join(f"octet_length({text}), ':', {text}" for text in known)
    return f"CASE WHEN concat({', '.join(known)}) <> '' THEN sha2(concat({parts}), 256) END"


def derived(texts: Sequence[str | None]) -> str | None:
    """Compute a derived id as `sql` does, for whoever has no Spark."""
    known = [(text or "").encode() for text in texts]
    content = b"".join(b"%d:%s" % (len(text), text) for text in known)
    return sha256(content).hexdigest() if any(known) else None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
