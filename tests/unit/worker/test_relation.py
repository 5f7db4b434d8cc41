"""A batch in a statement: arrays for what differs, one value for what does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worker.relation import parameters, relation

TYPES = {"id": "text", "job": "text", "n": "bigint"}


def test_what_is_the_same_for_all_travels_once() -> None:
    columns: Mapping[str, Sequence[Any]] = {"id": ["a", "b"], "job": ["j", "j"], "n": [1, 2]}
    assert relation(TYPES, columns) == (
        "SELECT u.*, %(job)b::text AS job FROM unnest(%(id)b::text[], %(n)b::bigint[])"
        " WITH ORDINALITY AS u(id, n, nth)"
    )
    assert parameters(TYPES, columns) == {"id": ["a", "b"], "job": "j", "n": [1, 2]}


def test_the_key_is_an_array_even_where_it_stands_alone_and_nothing_is_no_row() -> None:
    assert parameters(TYPES, {"id": ["a"], "job": ["j"], "n": [None]}, "x_") == {
        "x_id": ["a"],
        "x_job": "j",
        "x_n": None,
    }
    assert parameters(TYPES, {"id": [], "job": [], "n": []}) == {"id": [], "job": [], "n": []}
    assert relation(TYPES, {"id": ["a"], "job": ["j"], "n": [None]}, "x_").startswith(
        "SELECT u.*, %(x_job)b::text AS job, %(x_n)b::bigint AS n FROM unnest(%(x_id)b::text[])"
    )
