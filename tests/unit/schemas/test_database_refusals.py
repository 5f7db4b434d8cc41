"""What a database says when no connection is made: in one line, and whether asking again could help."""

from __future__ import annotations

import pytest

from schemas.database import is_refusal, told

_AT = 'connection failed: connection to server at "db" (10.0.0.7), port 5432 failed: '
REFUSALS = [
    'FATAL:  password authentication failed for user "headrace"',
    'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "headrace", database "headrace", no encryption',
    "SSL error: certificate verify failed",
    'server certificate for "db-1" does not match host name "db"',
    "server does not support SSL, but SSL was required",
    'root certificate file "/run/secrets/ca.pem" does not exist',
]
PASSING = [
    "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?",
    "FATAL:  the database system is starting up",
    'FATAL:  database "headrace" does not exist',
    "timeout expired",
]


@pytest.mark.parametrize("said", REFUSALS)
def test_who_we_are_and_whom_we_trust_is_a_matter_of_settings(said: str) -> None:
    assert is_refusal(told(Exception(_AT + said)))


@pytest.mark.parametrize("said", PASSING)
def test_the_rest_is_waited_for(said: str) -> None:
    assert not is_refusal(told(Exception(_AT + said)))


def test_it_is_told_in_one_line_beginning_with_the_server() -> None:
    assert told(Exception(_AT + PASSING[0])) == '"db" (10.0.0.7), port 5432 failed: Connection refused'
    assert told(Exception("connection timeout expired")) == "connection timeout expired"
