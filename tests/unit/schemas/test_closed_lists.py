"""The word lists that users' scripts and dashboards rest on: a change here is a change for every user."""

from __future__ import annotations

from schemas import database, tables, topics
from schemas.statuses import Billed, DeadLetter, ExitCode, JobState, LetterKind, PausedFor, Reason, Status, Unit


def test_statuses_and_reasons() -> None:
    assert list(Status) == ["claimed", "succeeded", "failed"]
    assert sorted(Reason) == sorted(
        "truncated filtered refused too_long invalid_output malformed_response rejected_request auth quota "
        "rate_limited server_error timeout connection attempts_exhausted crashed cancelled expired".split()
    )
    assert list(Billed) == ["yes", "no", "maybe"]
    assert list(LetterKind) == ["unreadable", "failed"]
    assert list(PausedFor) == ["operator", "budget"]
    assert list(Unit) == ["requests", "tokens"]
    assert list(JobState) == ["canary", "running", "paused", "cancelled", "done"]


def test_dead_letter_reasons_hold_no_text_of_a_message() -> None:
    assert all(reason.isascii() and " " not in reason for reason in DeadLetter)


def test_exit_codes() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "FAILED": 1,
        "WRONG_SETTINGS": 2,
        "STOPPED": 3,
        "UNREACHABLE": 4,
    }


def test_the_lease_is_renewed_thrice_in_its_time_and_a_message_starts_three_times() -> None:
    assert (database.LEASE_SECONDS, database.RENEW_SECONDS, database.MAX_STARTS) == (60, 20, 3)


def test_the_tables_hold_the_columns_that_are_promised() -> None:
    promised = """job id run fingerprint status reason result result_json sanitised finish_reason prompt_tokens
        completion_tokens latency_ms prompt_length result_length retry_count error_msg model endpoint cost_usd worker
        claimed_until published_at completed_at"""
    assert set(promised.split()) <= set(tables.results.c.keys())
    ledger = """job id attempt outcome http_status billed prompt_tokens completion_tokens latency_ms cost_usd model
        endpoint worker started_at finished_at detail"""
    assert set(ledger.split()) <= set(tables.attempts.c.keys())
    assert set("job run state read rejected deduplicated skipped published".split()) <= set(tables.jobs.c.keys())
    assert [column.name for column in tables.results.primary_key] == ["job", "id"]


def test_topics_and_who_subscribes_to_them() -> None:
    assert topics.prompts_topic("reviews") == "headrace.prompts.reviews"
    takes = topics.subscribes_to
    assert takes(topics.PROMPTS_PATTERN, "headrace.prompts")
    assert takes(topics.PROMPTS_PATTERN, "headrace.prompts.a.b")
    assert not takes(topics.PROMPTS_PATTERN, "headrace.promptsx")
    assert not takes(topics.PROMPTS_PATTERN, topics.DEAD_LETTERS)
    assert takes("mine", "mine")
    assert not takes("mine", "mine2")


def test_legal_topic_names() -> None:
    assert all(map(topics.is_legal, ["a", "A.b_c-9", "x" * 249]))
    assert not any(map(topics.is_legal, ["", ".", "..", "a b", "a/b", "é", "x" * 250, "a\n"]))
