"""Where an error came from is told, and none of its words."""

from __future__ import annotations

from schemas.places import trail

CANARY = "tell-nobody"


def test_an_error_and_its_causes_are_told_by_class_and_place() -> None:
    def first() -> None:
        raise KeyError(CANARY)

    def second() -> None:
        try:
            first()
        except KeyError as error:
            raise ValueError(CANARY) from error

    try:
        try:
            second()
        except ValueError:
            raise RuntimeError(CANARY)  # noqa: B904
    except RuntimeError as error:
        told = list(trail(error))
    assert [line.partition(" at ")[0] for line in told] == ["RuntimeError", "ValueError", "KeyError"]
    assert told[2].endswith(" first")
    assert "test_places.py:" in told[0]
    assert CANARY not in "".join(told)


def test_a_cause_that_was_taken_away_and_a_circle_end_the_trail() -> None:
    one, other = ValueError(CANARY), KeyError(CANARY)
    one.__cause__, other.__cause__ = other, one
    assert list(trail(one)) == ["ValueError at no known place", "KeyError at no known place"]
    alone = ValueError()
    alone.__context__, alone.__suppress_context__ = other, True
    assert len(list(trail(alone))) == 1
