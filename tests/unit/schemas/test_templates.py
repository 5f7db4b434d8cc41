"""The template language: a column in braces, doubled braces, nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.template import Column, Literal, columns, parse

NO_BRACES = st.text(st.characters(exclude_characters="{}"), min_size=1)


def test_columns_and_literals_in_order() -> None:
    assert parse("Review: {text}\nLabel {{x}}:") == [Literal("Review: "), Column("text"), Literal("\nLabel {x}:")]
    assert columns("{a} {b} {a}") == {"a", "b"}


@pytest.mark.parametrize(
    "name", ["0.__class__", "self", "a b", "a.b", "naïve", "config['x']", "a!r", "a:>10", "%s", "$x"]
)
def test_a_name_is_a_name_and_never_an_expression(name: str) -> None:
    assert parse(f"<{{{name}}}>") == [Literal("<"), Column(name), Literal(">")]


@pytest.mark.parametrize("template", ["{{ config }}", "{{0.__class__}}", "{{{{}}}}", "${x}".replace("{x}", ""), "%s"])
def test_doubled_braces_are_text(template: str) -> None:
    assert parse(template) == [Literal(template.replace("{{", "{").replace("}}", "}"))]


@pytest.mark.parametrize(
    ("template", "place"),
    [("{", 1), ("a}", 2), ("ab{", 3), ("{a", 1), ("{a}}", 4), ("{{}", 3), ("{a{b}}", 1), ("{}", 1), ("x { } y", 3)],
)
def test_a_mistake_is_named_with_its_place(template: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"at character {place}"):
        parse(template)


@given(st.lists(NO_BRACES | NO_BRACES.map(lambda text: f"{{{text}}}") | st.sampled_from(["{{", "}}"])))
def test_a_template_is_its_parts_put_together(pieces: list[str]) -> None:
    template = "".join(pieces)
    try:
        parts = parse(template)
    except ValueError:
        return
    again = "".join(
        part.text.replace("{", "{{").replace("}", "}}") if isinstance(part, Literal) else f"{{{part.name}}}"
        for part in parts
    )
    assert parse(again) == parts
    assert not any(isinstance(a, Literal) and isinstance(b, Literal) for a, b in itertools.pairwise(parts))


def test_an_empty_template_has_no_parts() -> None:
    assert parse("") == []
