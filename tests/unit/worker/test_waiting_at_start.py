"""Starting before the services: waits with back-off, one line a minute, and ends as soon as a stop is asked."""

from __future__ import annotations

import asyncio
import logging

import pytest

from schemas.database import REVISION
from tests.fakes.virtual_time import now, virtual
from worker.errors import StopAskedError, StoreUnavailableError, WrongSettingsError
from worker.startup import wait_for_database, wait_for_kafka


class Schema:
    """Answers with each of `revisions` in turn, the last one for ever."""

    def __init__(self, *revisions: str | Exception | None) -> None:
        self.revisions = list(revisions)
        self.asked = 0
        self.said: str | None = None

    async def revision(self) -> str | None:
        self.asked += 1
        found = self.revisions.pop(0) if len(self.revisions) > 1 else self.revisions[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def trouble(self) -> str | None:
        return self.said


class Brokers:
    def __init__(self, failures: int) -> None:
        self.failures = failures

    def reachable(self, seconds: float) -> str | None:
        self.failures -= 1
        return "_TRANSPORT" if self.failures >= 0 else None


def waiting_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage().endswith(".waiting")]


@virtual
async def test_what_is_there_is_not_waited_for() -> None:
    began = now()
    await wait_for_database(Schema(REVISION), asyncio.Event())
    await wait_for_kafka(Brokers(0), "a:1", asyncio.Event())
    assert now() == began


@virtual
async def test_a_database_is_waited_for_until_it_answers_in_our_revision() -> None:
    schema = Schema(StoreUnavailableError("OperationalError"), None, "0000", REVISION)
    await wait_for_database(schema, asyncio.Event())
    assert schema.asked == 4


def test_an_hour_of_waiting_is_an_hour_of_few_tries_and_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    schema = Schema(StoreUnavailableError("OperationalError 57P03"))

    @virtual
    async def wait() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(3600, stop.set)
        with pytest.raises(StopAskedError):
            await wait_for_database(schema, stop)
        assert now() == pytest.approx(4600)

    with caplog.at_level(logging.WARNING):
        wait()
    assert 200 < schema.asked < 300
    lines = waiting_lines(caplog)
    assert 50 <= len(lines) <= 61
    assert vars(lines[0])["what"] == "OperationalError 57P03"
    assert "headrace migrate" in vars(lines[0])["next"]


@virtual
async def test_a_stop_ends_the_waiting_at_once() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(100.25, stop.set)
    with pytest.raises(StopAskedError):
        await wait_for_kafka(Brokers(10**6), "a:1", stop)
    assert now() == pytest.approx(1100.25)


@virtual
async def test_a_schema_of_a_newer_release_is_a_settings_error_that_says_what_to_do() -> None:
    with pytest.raises(WrongSettingsError, match="deploy a newer worker"):
        await wait_for_database(Schema("9999"), asyncio.Event())


@virtual
async def test_a_server_that_refuses_us_is_not_asked_again() -> None:
    schema = Schema(StoreUnavailableError("PoolTimeout"))
    schema.said = '"db", port 5432 failed: SSL error: certificate verify failed'
    with pytest.raises(WrongSettingsError, match=r"DATABASE_URL: .*certificate verify failed"):
        await wait_for_database(schema, asyncio.Event())
    assert schema.asked == 1


def test_what_a_server_lacks_for_now_is_told_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    schema = Schema(StoreUnavailableError("PoolTimeout"), REVISION)
    schema.said = '"db", port 5432 failed: FATAL: the database system is starting up'

    @virtual
    async def wait() -> None:
        await wait_for_database(schema, asyncio.Event())

    with caplog.at_level(logging.WARNING):
        wait()
    assert vars(waiting_lines(caplog)[0])["what"] == schema.said


@virtual
async def test_brokers_are_waited_for() -> None:
    await wait_for_kafka(Brokers(5), "a:1,b:2", asyncio.Event())
    assert 5 < now() - 1000 < 60
