from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from simulator.answers import answer, prompt_text, token_count, truncated

CONTENT = st.one_of(
    st.text(), st.none(), st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}))
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": CONTENT}), min_size=1
)


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_the_answer_names_model_digest_and_prompt() -> None:
    assert answer(_user("hello"), "small") == "small [8d6b8ab72a76d0a3] hello"


@given(MESSAGES, st.text(min_size=1))
def test_an_answer_repeats_and_is_never_empty(messages: list[dict[str, object]], model: str) -> None:
    said = answer(messages, model)
    assert said == answer(json.loads(json.dumps(messages)), model)
    assert said


def test_another_model_role_or_text_gives_another_answer() -> None:
    system = [{"role": "system", "content": "hello"}]
    two = _user("hel") + _user("lo")
    said = [answer(_user("hello"), "a"), answer(_user("hello"), "b"), answer(system, "a"), answer(two, "a")]
    assert len(set(said)) == 4


def test_the_echo_of_a_long_prompt_is_cut() -> None:
    assert len(answer(_user("x" * 100_000), "m")) == len("m [0123456789abcdef] ") + 2000


def test_half_a_surrogate_pair_is_answered() -> None:
    assert answer(_user("a\ud800"), "m").endswith("a\ud800")


def test_a_json_object_is_answered_if_asked_for() -> None:
    said = json.loads(answer(_user("hello"), "m", {"type": "json_object"}))
    assert said == {"answer": answer(_user("hello"), "m")}


def test_a_schema_is_filled_if_asked_for() -> None:
    schema = {"type": "object", "properties": {"label": {"enum": ["good", "bad"]}}, "required": ["label"]}
    asked = {"type": "json_schema", "json_schema": {"name": "label", "schema": schema}}
    labels = {json.loads(answer(_user(f"row {at}"), "m", asked))["label"] for at in range(20)}
    assert labels == {"good", "bad"}


def test_the_prompt_is_the_text_of_all_messages() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "b"}]}]
    assert prompt_text([*_user("a"), *parts]) == 'a\n[{"text":"b","type":"text"}]'


@given(st.text(), st.integers(0, 50))
def test_a_text_is_cut_exactly_when_it_has_too_many_tokens(text: str, most: int) -> None:
    kept, cut = truncated(text, most)
    assert cut is (token_count(text) > most)
    assert token_count(kept) <= most
    assert text.startswith(kept)


def test_without_a_limit_nothing_is_cut() -> None:
    assert truncated("x" * 10_000, None) == ("x" * 10_000, False)
