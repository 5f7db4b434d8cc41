"""Any text that a message may hold is stored as it is, and never read as anything but data."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.message import Prompt, decode, id_problem
from schemas.text import clean_json, clean_text
from tests.contract.stores import StoreHarness
from tests.contract.test_store_claims import claim
from tests.fakes.samples import TOPIC, called, finished, message, record, work
from worker.core.offsets import Ticket
from worker.ports import Work

TEXT = st.text(max_size=60)
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)
IDS = st.text(min_size=1, max_size=20).filter(lambda text: id_problem(text) is None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
many = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def fresh_job() -> str:
    return uuid.uuid4().hex


@settings(many, max_examples=90)
@given(ids=st.lists(IDS, min_size=50, max_size=200, unique=True))
async def test_any_ids(harness: StoreHarness, ids: list[str]) -> None:
    store, job = await harness.store("a"), fresh_job()
    works = [work(id_, job=job) for id_ in ids]
    await claim(store, *works)
    rows = [finished(one, one.prompt.id) for one in works]
    assert await store.finish(rows, [called(one) for one in works]) == [True] * len(ids)
    for id_ in ids[:5]:
        row = await harness.row(id_, job)
        assert (row["id"], row["result"]) == (id_, id_)
        assert [line["id"] for line in await harness.calls(id_, job)] == [id_]


@many
@given(answer=ANY_TEXT, detail=ANY_TEXT, value=JSON, run=TEXT, model=TEXT)
async def test_any_answer_once_cleaned(
    harness: StoreHarness, answer: str, detail: str, value: Any, run: str, model: str
) -> None:
    store, job = await harness.store("a"), fresh_job()
    named = {"run": run, "model": model}
    extra: dict[str, Any] = {name: text for name, text in named.items() if text and not clean_text(text)[1]}
    one = work(job=job, **extra)
    await claim(store, one)
    text, cleaned = clean_text(answer)[0], clean_json(value)[0]
    row = finished(one, text, result_json=cleaned, finish_reason=text, error_msg=text, model_answered=text)
    assert await store.finish([row], [called(one, detail=clean_text(detail)[0])]) == [True]
    stored = await harness.row("r-1", job)
    assert (stored["result"], stored["finish_reason"], stored["run"]) == (text, text, extra.get("run"))
    assert (await harness.calls("r-1", job))[0]["detail"] == clean_text(detail)[0]


INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


@many
@given(published=st.none() | INSTANTS, timestamp=st.none() | INSTANTS, offset=st.integers(0, 2**63 - 1))
async def test_any_time_and_offset(
    harness: StoreHarness, published: datetime | None, timestamp: datetime | None, offset: int
) -> None:
    store, job = await harness.store("a"), fresh_job()
    fields: dict[str, Any] = {"published_at": published.isoformat()} if published else {}
    prompt = decode(None, message(job=job, **fields))
    assert isinstance(prompt, Prompt)
    one = Work(prompt, record(offset=offset, timestamp=timestamp), [Ticket((TOPIC, 0), offset, 1)], "small")
    await claim(store, one)
    row = await harness.row("r-1", job)
    assert row["log_offset"] == offset
    assert row["published_at"] == (published or timestamp)
