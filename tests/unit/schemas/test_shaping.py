"""The parts of a job file that decide which rows are asked, and what."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.documents import validate_document
from schemas.job import Job
from schemas.settings import SettingsError
from schemas.shaping import Escalation
from schemas.statuses import Reason
from schemas.tokens import estimated_tokens, most_bytes
from worker.core.tokens import Estimate, Size

LEAST: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "data/reviews"},
    "id": "review_id",
    "prompt": {"template": "Review: {text}"},
    "target": {"format": "delta", "path": "warehouse/reviews"},
}


def said(content: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": content}


CHAT = [said("Label {{}}", "system"), said("{text}")]


def problems(**changes: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        validate_document("reviews.yaml", LEAST | changes, Job)
    return caught.value.problems


def test_a_cascade_goes_on_after_reasons_of_the_closed_list() -> None:
    (kind,) = get_args(Escalation.model_fields["after"].annotation)
    assert set(get_args(kind)) < set(map(str, Reason))


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_tokens_are_estimated_as_a_worker_begins_to(size: int, most: int) -> None:
    assert estimated_tokens(size) == Estimate().prompt_tokens(Size(size))
    assert estimated_tokens(most_bytes(most)) <= most < estimated_tokens(most_bytes(most) + 1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rules": [{"when": "a > 1"}]}, "rules.0.name: is missing"),
        ({"rules": [{"name": "a b", "when": "a > 1"}]}, "rules.0.name: "),
        ({"rules": [{"name": "a"}, {"name": "b", "when": "x"}]}, "rules: only the last may leave out `when`"),
        ({"rules": [{"name": "a", "when": "x"}, {"name": "a", "when": "y"}]}, "rules: two rules have one name"),
        ({"language": {}}, "language: needs a column with keep, or scripts, or both"),
        ({"language": {"column": "lang"}}, "language: column and keep go together"),
        ({"language": {"scripts": ["Han"], "min_share": 0}}, "language.min_share: "),
        ({"language": {"column": "l", "keep": ["en"], "min_share": 0.5}}, "language: min_share says nothing"),
        ({"language": {"scripts": ["Han}"]}}, "language.scripts: 'Han}' is no name of a script"),
        ({"clean": {"max_tokens": 0}}, "clean.max_tokens: "),
        (
            {"routes": [{"model": "a", "escalate": {"model": "a"}}]},
            "routes.0: escalate.model: is the route",
        ),
        ({"routes": [{"model": "a", "escalate": {"model": "b", "after": []}}]}, "routes.0.escalate.after: "),
        (
            {"routes": [{"model": "a", "escalate": {"model": "b", "after": ["timeout"]}}]},
            "routes.0.escalate.after.0: ",
        ),
        (
            {"routes": [{"model": "a", "escalate": {"model": "b"}}], "incremental": False},
            "whole file: escalate looks at earlier results",
        ),
        ({"prompt": {"template": "{text}", "messages": CHAT}}, "prompt: needs a template or messages"),
        ({"prompt": {"system": "Label."}}, "prompt: needs a template or messages"),
        ({"prompt": {"messages": CHAT, "system": "Label."}}, "prompt: system and examples are messages"),
        ({"prompt": {"messages": [said("Label.")]}}, "prompt: messages: none names a {column}"),
        ({"prompt": {"messages": [said("{text} }")]}}, "prompt.messages.0.content: a lone }"),
        ({"prompt": {"messages": [said("{text}"), said(" ")]}}, "prompt.messages.1.content: is blank"),
        ({"prompt": {"messages": [said("{text}", "tool")]}}, "prompt.messages.0.role: "),
        *(
            ({"prompt": {"messages": [said("As {name}", role), *CHAT]}}, "prompt.messages.0: names {name}: columns")
            for role in ("system", "developer", "assistant")
        ),
        ({"prompt": {"template": "{text}", "fence": ["title"]}}, "prompt: fence: title is in no template"),
        (
            {"prompt": {"messages": CHAT}, "routes": [{"model": "small", "template": "{text}"}]},
            "whole file: routes.0.template: says nothing beside prompt.messages",
        ),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, Any], problem: str) -> None:
    found = problems(**changes)

    assert len(found) == 1
    assert found[0].startswith(problem)
