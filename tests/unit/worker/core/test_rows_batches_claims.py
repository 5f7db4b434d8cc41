"""The rows that are written, when a batch is due, and which claims are ours."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from schemas import tables
from schemas.models import Price
from schemas.statuses import Billed, Reason, Status
from tests.fakes.samples import prompt
from worker.core.batch import BatchRule
from worker.core.claims import Claim, Verdict
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.rows import AttemptRow, Call, FinishedRow, cost, ended, ledger_line

AT = datetime(2026, 1, 1, tzinfo=UTC)
PRICE = Price(input_per_million=Decimal("0.10"), output_per_million=Decimal("0.40"))
CLAIM = Claim(Verdict.NEW, fence=3, claimed_at=AT, attempts=2)
CALL = Call(3, "small", "vllm-a:8000", AT, AT, 120, PRICE)
GOOD = Outcome(Kind.ANSWERED, None, Billed.YES, 200, Answer("Yes", "stop", "served-1", 1000, 500, value={"a": 1}))
TRUNCATED = Outcome(Kind.UNFIT, Reason.TRUNCATED, Billed.YES, 200, Answer("Ye", "length", prompt_tokens=7))
REJECTED = Outcome(Kind.REJECTED, Reason.TOO_LONG, Billed.NO, 400, code="too_long", detail="you said: tell-nobody")


def test_a_success_has_no_reason_and_all_that_was_reported() -> None:
    row = ended(prompt(job="reviews"), CLAIM, CALL, GOOD, reason=None, retries=1)
    assert (row.job, row.id, row.fence, row.status, row.reason) == ("reviews", "r-1", 3, Status.SUCCEEDED, None)
    assert (row.result, row.result_json, row.result_length, row.finish_reason) == ("Yes", {"a": 1}, 3, "stop")
    assert (row.prompt_tokens, row.completion_tokens, row.cost_usd) == (1000, 500, Decimal("0.0003"))
    assert (row.model, row.model_answered, row.endpoint, row.latency_ms) == ("small", "served-1", "vllm-a:8000", 120)
    assert (row.retry_count, row.error_msg, row.sanitised) == (1, None, False)


def test_a_truncated_answer_keeps_its_text() -> None:
    row = ended(prompt(), CLAIM, CALL, TRUNCATED, reason=Reason.TRUNCATED, retries=0)
    assert (row.status, row.reason, row.result) == (Status.FAILED, Reason.TRUNCATED, "Ye")
    assert (row.prompt_tokens, row.completion_tokens, row.cost_usd) == (7, None, None)


def test_a_failure_has_our_own_words_and_no_text_of_anybody() -> None:
    row = ended(prompt(), CLAIM, CALL, REJECTED, reason=Reason.TOO_LONG, retries=0)
    assert (row.status, row.reason, row.result, row.result_length) == (Status.FAILED, Reason.TOO_LONG, None, None)
    assert row.error_msg == "rejected, status 400, too_long"
    line = ledger_line(prompt(), CLAIM, CALL, REJECTED)
    assert line.detail == "too_long: you said: tell-nobody"


def test_the_last_word_may_differ_from_the_last_outcome() -> None:
    row = ended(prompt(), CLAIM, CALL, REJECTED, reason=Reason.ATTEMPTS_EXHAUSTED, retries=3)
    assert row.reason is Reason.ATTEMPTS_EXHAUSTED


@pytest.mark.parametrize("outcome", [GOOD, TRUNCATED, REJECTED, Outcome(Kind.ABANDONED, billed=Billed.MAYBE)])
def test_every_call_has_its_line(outcome: Outcome) -> None:
    line = ledger_line(prompt(run="run-3"), CLAIM, CALL, outcome)
    assert (line.job, line.id, line.attempt, line.claimed_at, line.run) == ("default", "r-1", 3, AT, "run-3")
    assert (line.outcome, line.http_status, line.billed) == (outcome.kind, outcome.status, outcome.billed)
    assert (line.model, line.endpoint, line.latency_ms) == ("small", "vllm-a:8000", 120)


def test_text_replaced_in_the_prompt_or_in_the_answer_marks_the_row() -> None:
    clean = ended(prompt(), CLAIM, CALL, GOOD, reason=None, retries=0)
    asked = ended(prompt(text="a\0"), CLAIM, CALL, GOOD, reason=None, retries=0)
    said = Outcome(Kind.ANSWERED, answer=Answer("x", sanitised=True))
    answered = ended(prompt(), CLAIM, CALL, said, reason=None, retries=0)
    assert [clean.sanitised, asked.sanitised, answered.sanitised] == [False, True, True]


@pytest.mark.parametrize(
    ("answer", "price", "expected"),
    [
        (None, PRICE, None),
        (Answer("x", prompt_tokens=1, completion_tokens=1), None, None),
        (Answer("x", prompt_tokens=None, completion_tokens=1), PRICE, None),
        (Answer("x", prompt_tokens=1, completion_tokens=None), PRICE, None),
        (Answer("x", prompt_tokens=0, completion_tokens=0), PRICE, Decimal(0)),
        (Answer("x", prompt_tokens=3_000_000_000, completion_tokens=1), PRICE, Decimal("300.0000004")),
    ],
)
def test_a_cost_is_exact_or_unknown(answer: Answer | None, price: Price | None, expected: Decimal | None) -> None:
    assert cost(answer, price) == expected


def test_a_row_without_its_content_keeps_its_bill() -> None:
    row = ended(prompt(), CLAIM, CALL, GOOD, reason=None, retries=0).stripped("refused")
    assert (row.status, row.reason, row.error_msg) == (Status.FAILED, Reason.MALFORMED_RESPONSE, "refused")
    assert (row.result, row.result_json, row.finish_reason, row.model_answered) == (None, None, None, None)
    assert (row.prompt_tokens, row.cost_usd) == (1000, Decimal("0.0003"))
    kept = ended(prompt(), CLAIM, CALL, TRUNCATED, reason=Reason.TRUNCATED, retries=0).stripped("refused")
    assert kept.reason is Reason.TRUNCATED


def test_rows_speak_the_names_of_the_tables() -> None:
    assert {field.name for field in fields(FinishedRow)} <= set(tables.results.c.keys())
    assert {field.name for field in fields(AttemptRow)} <= set(tables.attempts.c.keys())


@pytest.mark.parametrize("row", [ended(prompt(text="tell-nobody"), CLAIM, CALL, GOOD, reason=None, retries=0)])
def test_a_row_shows_nothing_of_itself(row: FinishedRow) -> None:
    assert "Yes" not in repr(row)
    assert "Yes" not in repr(GOOD) + repr(GOOD.answer)


@pytest.mark.parametrize(
    ("held", "age", "since_last", "wait"),
    [
        (500, 0, 0, 0),
        (501, 0, 0, 0),
        (1, 0, 9, 0.005),
        (1, 0.005, 9, 0),
        (1, 0.05, 0.04, 0),
        (1, 0.02, 0.03, 0.02),
        (499, 0, 0, 0.05),
        (1, 0, 0.048, 0.005),
    ],
)
def test_a_batch_is_due_by_size_by_age_or_a_while_after_the_last(
    held: int, age: float, since_last: float, wait: float
) -> None:
    assert BatchRule(500, 0.05, 0.005).wait(held, age, since_last) == pytest.approx(wait)


def test_which_verdicts_are_ours_to_ask() -> None:
    ours = {verdict for verdict in Verdict if Claim(verdict).ours}
    assert ours == {Verdict.NEW, Verdict.NEWER, Verdict.AGAIN, Verdict.RELEASED, Verdict.LOST}
