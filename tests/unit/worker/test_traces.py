"""Traces: told when an end is durable, of messages whose trace is kept, and of nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from schemas.settings import TracingSettings
from schemas.tracing import TRACEPARENT, traceparent
from tests.fakes.samples import called, finished, work
from tests.fakes.virtual_time import settle, virtual
from worker.core.claims import Claim, Verdict
from worker.core.rows import AttemptRow, FinishedRow
from worker.ports import Work
from worker.traces import Story, Traces, exporting

PARENT = traceparent(7, 9)


class Recorder:
    """Makes an end durable when it is told to."""

    def __init__(self) -> None:
        self.ends: list[asyncio.Future[bool]] = []

    def note(self, attempt: AttemptRow) -> asyncio.Future[bool]:
        return asyncio.get_running_loop().create_future()

    def write(self, row: FinishedRow, attempt: AttemptRow | None) -> asyncio.Future[bool]:
        self.ends.append(asyncio.get_running_loop().create_future())
        return self.ends[-1]


class Spans:
    def __init__(self) -> None:
        self.stories: list[Story] = []

    def tell(self, story: Story) -> None:
        self.stories.append(story)

    def close(self) -> None:
        pass


def traced(header: str | None = PARENT) -> Work:
    one = work()
    one.claim = Claim(Verdict.NEW, fence=1)
    headers = () if header is None else (("other", b"x"), (TRACEPARENT, header.encode()))
    one.record = replace(one.record, headers=headers)
    return one


async def told(one: Work, *, stored: bool = True, calls: int = 2) -> list[Story]:
    recorder, spans = Recorder(), Spans()
    traces = Traces(recorder, lambda key: one if key == one.key else None, spans)
    for _ in range(calls - 1):
        traces.note(called(one))
    traces.write(finished(one), called(one) if calls else None)
    assert spans.stories == []
    recorder.ends[0].set_result(stored)
    await settle()
    return spans.stories


@virtual
async def test_a_prompt_is_told_of_with_all_its_calls_once_it_is_durable() -> None:
    (story,) = await told(traced(), calls=3)
    assert story.parent == PARENT
    assert len(story.calls) == 3
    assert story.claimed_at <= story.ended_at <= story.durable_at


@virtual
async def test_an_end_without_a_call_has_a_story_too() -> None:
    (story,) = await told(traced(), calls=0)
    assert story.calls == ()


@pytest.mark.parametrize("header", [None, "00-" + "1" * 32 + "-" + "1" * 16 + "-00", "rubbish"])
@virtual
async def test_messages_whose_trace_is_not_kept_have_none(header: str | None) -> None:
    assert await told(traced(header)) == []


@virtual
async def test_what_another_owner_has_taken_over_is_told_by_that_one() -> None:
    assert await told(traced(), stored=False) == []


def test_without_an_address_there_are_no_spans() -> None:
    assert exporting(TracingSettings(), "w") is None
