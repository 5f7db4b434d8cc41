"""The command line of the producer."""

from __future__ import annotations

from pathlib import Path

import pytest

from producer.arguments import Arguments, parse
from producer.errors import WrongJobError


def test_only_the_job_file_is_needed() -> None:
    assert parse(["--job", "reviews.yaml"]) == Arguments(Path("reviews.yaml"))


def test_every_option_is_read() -> None:
    argv = ["--job", "a.yaml", "--limit", "7", "--dry-run", "--no-canary", "--retry-failed"]
    assert parse(argv) == Arguments(Path("a.yaml"), 7, dry_run=True, no_canary=True, retry_failed=True)


def test_a_dry_run_shows_as_many_prompts_as_asked() -> None:
    assert parse(["--job", "a", "--dry-run"]).print_prompts == 3
    assert parse(["--job", "a", "--dry-run", "--print-prompts", "20"]).print_prompts == 20


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        ([], "--job"),
        (["--job", "a", "--limit", "0"], "--limit: must be a whole number from 1"),
        (["--job", "a", "--limit", "many"], "--limit: must be a whole number from 1"),
        (["--job", "a", "--dry"], "--dry"),
        (["--job", "a", "--print-prompts", "5"], "--print-prompts goes with --dry-run"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(argv: list[str], problem: str) -> None:
    with pytest.raises(WrongJobError) as raised:
        parse(argv)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)
